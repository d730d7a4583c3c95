-- How many entries that no longer count `stale` counts in all, and its fields that duly did not write: those that are not a level
-- and an id with a number from 1 on. Of such a field nothing counts.
-- Gives: `stale_count`, `stale_sum`.
local function stale_count(text)
  return #text <= 15 and string.find(text, '^[1-9]%d*$') and tonumber(text)
end

local function stale_sum()
  local sum, foreign = 0, {}
  local all = redis.call('HGETALL', stale)
  for k = 1, #all, 2 do
    local count = string.find(all[k], '^%d:.') and stale_count(all[k + 1])
    if count then sum = sum + count else foreign[#foreign + 1] = all[k] end
  end
  return sum, foreign
end
