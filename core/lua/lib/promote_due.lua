-- Moves due jobs from `delayed` to their ready lists, oldest due first, at most `cap`; says how many.
local function promote_due(cap)
  local due = redis.call('ZRANGEBYSCORE', delayed, '-inf', now, 'LIMIT', 0, cap)
  if #due == 0 then return 0 end
  redis.call('ZREM', delayed, unpack(due))
  local by_level = {}
  for _, member in ipairs(due) do
    local id, level = split_delayed_member(member)
    local ids = by_level[level]
    if not ids then
      ids = {}
      by_level[level] = ids
    end
    ids[#ids + 1] = id
  end
  for level, ids in pairs(by_level) do redis.call('RPUSH', ready(level), unpack(ids)) end
  return #due
end
