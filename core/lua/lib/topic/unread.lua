-- Messages that nobody has pulled, as XREADGROUP does, which Redis 5 does not let a script call.
-- Needs: `topic`, `messages`, `subscription`, `member`, `behind`, `most`, `max_bytes`, `given`, `bytes`, `largest`,
-- `published_bytes`, `ids`, `has_room`, `give`. Gives: `at`, the last one that somebody has pulled.
local again_pulled = #ids
local at = redis.call('HGET', topic, 'at:' .. subscription)
local count = 1
while has_room() do
  count = math.min(count, most - given)
  local entries = redis.call('XRANGE', messages, behind(at), '+', 'COUNT', count)
  for _, entry in ipairs(entries) do
    -- with `if false then break end` for `if not has_room() then break end`: small messages before large ones bring all of those at once
    if not has_room() then break end
    give(entry, 1)
    at = entry[1]
  end
  if #entries < count then break end
  -- All the rest if it fits, else as many as are likely to, by the largest one yet; few, as the next ones may be much larger.
  if published_bytes - (tonumber(entries[count][2][4]) or 0) <= max_bytes - bytes then
    count = most
  else
    count = math.min(2 * count, 32, math.max(1, math.floor((max_bytes - bytes) / largest)))
  end
end
if #ids > again_pulled then
  local claim = { 'XCLAIM', messages, subscription, member, 0 }
  for i = again_pulled + 1, #ids do claim[#claim + 1] = ids[i] end
  for _, word in ipairs({ 'FORCE', 'RETRYCOUNT', '1', 'JUSTID', 'LASTID', at }) do claim[#claim + 1] = word end
  redis.call(unpack(claim))
  -- without: messages are given again and again
  redis.call('HSET', topic, 'at:' .. subscription, at)
end
