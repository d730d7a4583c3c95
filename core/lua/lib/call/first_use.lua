-- Writes down the format, and the levels that the caller is going to use.
-- Needs: what `call/meta` gives.

-- with `if not noted_format then`: a level that came into use is not written down
-- with `if levels ~= passed_levels then`: a queue without a format
if not noted_format or levels ~= passed_levels then
  redis.call('HSET', meta, 'format', 'FORMAT', 'levels', passed_levels)
  -- without: a push into a queue that lost its meta hides what its limits held back
  if limits == '?' then redis.call('HSET', meta, 'limits', limits) end
end
