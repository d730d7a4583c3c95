-- A queue that lost its `meta` is found again with all levels, and with what its limits held back; and a limit that was taken away is
-- forgotten with the last job that it held back.
-- Needs: `limits`, what `call/meta` gives. Gives: `limits` as they are now, and writes them down.
--- include: limits/live
if limits == '?' or string.find(limits, ';;;', 1, true) then
  -- The queue is found again with all levels, by this and the next calls.
  -- without: a queue that lost its meta is found again by each reserve anew
  if not noted_levels then redis.pcall('HSET', meta, 'format', 'FORMAT', 'levels', levels) end
  limits = live_limits(limits)
  if limits ~= noted_limits then write_limits(limits) end
end
