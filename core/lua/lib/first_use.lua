-- Writes down the format, and the levels that the caller is going to use.
if not noted_format or levels ~= passed_levels then
  redis.call('HSET', meta, 'format', FORMAT, 'levels', passed_levels)
  if limits == '?' then redis.call('HSET', meta, 'limits', limits) end
end
