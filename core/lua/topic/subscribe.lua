-- Makes a member of a topic, and its subscription, if there is none yet. The cursor of one that is there stays where it is.
-- Moves:   nothing.
-- Replies: `made`, `joined` or `known`; `other <subscription>` if the member has another one; or `format <n>`.
-- Cost:    O(1).
--- include: clock, topic_state, once
if earlier then return earlier end
local was = redis.call('HGET', topic, 'member:' .. member)
if was and was ~= subscription then return answer('other ' .. was) end
-- A server without memory lets a member come back that is known: then its first write must not grow.
if was and redis.call('ZSCORE', floors, subscription) then redis.call('HDEL', topic, '') end
local made = was and 'known' or 'joined'
if not redis.call('ZSCORE', floors, subscription) then
  made = 'made'
  local read, read_ms = last, last_ms
  if from_earliest == '1' then read, read_ms = first - 1, 0 end
  local id = string.format('%.0f-%.0f', read_ms, read)
  redis.call('XGROUP', 'CREATE', messages, subscription, id, 'MKSTREAM')
  redis.call('ZADD', floors, string.format('%.0f', read + 1), subscription)
  redis.call('HSET', topic, 'at:' .. subscription, id)
  redis.call('HDEL', topic, 'cut:' .. subscription)
end
redis.call('HSET', topic, 'member:' .. member, subscription, 'seen:' .. member, now_text)
return answer(made)
