-- All that is kept about some ids, in one look; without ids, what the queue says of itself. Read-only.
-- Moves:   nothing.
-- Replies: one list an id, of the first ids only if their records are larger than `max_bytes`; without ids {levels, stale
--          entries as `meta` says, as they are or '' if there are too many to add up here, levels with a ready list}.
-- Cost:    O(log n) an id, at most 250 ids; without ids O(1,000).
--- include: job/routing, job/delayed_member, audit/examine_one
if #ARGV < first_item then
  local sum = ''
  if redis.call('HLEN', stale) <= 1000 then
    local counted = 0
    for _, count in ipairs(redis.call('HVALS', stale)) do counted = counted + (tonumber(count) or 0) end
    sum = string.format('%.0f', counted)
  end
  local used = ''
  for level in string.gmatch(passed_levels, '%d') do
    if redis.call('EXISTS', ready(level)) == 1 then used = used .. level end
  end
  local levels, stale_entries = unpack(redis.call('HMGET', meta, 'levels', 'stale_entries'))
  return { levels or '', stale_entries or '0', sum, used }
end

-- ARGV from first_item: (id, member of `delayed` or '', key or '') each.
local reply = {}
local bytes = 0
for at = first_item, #ARGV, 3 do
  local looked = examine_one(ARGV[at], ARGV[at + 1], ARGV[at + 2])
  reply[#reply + 1] = looked
  bytes = bytes + (tonumber(looked[1]) or 0)
  if bytes > max_bytes then break end
end
return reply
