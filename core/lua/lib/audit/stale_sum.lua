-- How many entries that no longer count `stale` counts in all.
-- Gives: `stale_sum`.
local function stale_sum()
  local sum = 0
  for _, count in ipairs(redis.call('HVALS', stale)) do sum = sum + (tonumber(count) or 0) end
  return sum
end
