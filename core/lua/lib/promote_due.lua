-- Moves due jobs from `delayed` to their ready lists, oldest due first, at most `promote_cap`.
local promoted = redis.call('ZRANGEBYSCORE', delayed, '-inf', now_text, 'LIMIT', '0', promote_cap)
if #promoted > 0 then
  local by_level = {}
  for _, member in ipairs(promoted) do
    local level = '5'
    local tab = string.find(member, '\t', 1, true)
    if tab then
      level = string.sub(member, tab + 1)
      member = string.sub(member, 1, tab - 1)
    end
    local ids = by_level[level]
    if not ids then
      ids = {}
      by_level[level] = ids
    end
    ids[#ids + 1] = member
  end
  -- Fails on a foreign type while nothing is moved yet.
  for level in pairs(by_level) do redis.call('LLEN', ready(level)) end
  redis.call('ZREM', delayed, unpack(promoted))
  for level, ids in pairs(by_level) do redis.call('RPUSH', ready(level), unpack(ids)) end
end
