-- Takes the entries at the head of `list` away that no longer count, ten and then a hundred at a time: they cost a few commands
-- together, and not a few each. Stops at the first that counts, and when `stale_left` of this call are used up.
-- Needs: `list`, `level`, `stale_left`. Gives: `stale_left`, less those taken away.
local chunk = 10
while stale_left > 0 do
  local ids, fields, passed, run = redis.call('LRANGE', list, '0', chunk - 1), {}, {}, 0
  for k, id in ipairs(ids) do fields[k] = level .. ':' .. id end
  local counts = #ids > 0 and redis.call('HMGET', stale, unpack(fields)) or {}
  for k, field in ipairs(fields) do
    local stale_count = tonumber(counts[k] or 0)
    -- without: a job that counts is taken away and lost
    if (passed[field] or 0) >= stale_count then break end
    passed[field] = (passed[field] or 0) + 1
    run = k
  end
  if run == 0 then break end
  redis.call('LTRIM', list, run, '-1')
  local gone = {}
  for k, field in ipairs(fields) do
    local taken = passed[field]
    passed[field] = nil
    if taken == tonumber(counts[k] or 0) then
      gone[#gone + 1] = field
    elseif taken then
      -- without: a job that comes again is skipped and lost
      redis.call('HINCRBY', stale, field, -taken)
    end
  end
  if #gone > 0 then redis.call('HDEL', stale, unpack(gone)) end
  redis.call('HINCRBY', meta, 'stale_entries', -run)
  stale_left = stale_left - run
  if run < #ids then break end
  chunk = 100
end
