-- Which entries of a chunk no longer count. Known before bytes are counted: such an entry must not hold back the job behind it.
-- Needs: `entries`, `records`, `length`, `level`, `is_stale`. Gives: `is_stale`, and takes theirs out of the records.
is_stale = {}
local passed = {}
for k = 1, length do
  local id = entries[k]
  passed[id] = (passed[id] or 0) + 1
  if passed[id] <= tonumber(redis.call('HGET', stale, level .. ':' .. id) or 0) then
    is_stale[k], records[k] = true, false
  end
end
