-- Sets the bounds of a topic. They hold from the next message on: `topic/publish` removes what is beyond them.
-- Moves:   nothing.
-- Replies: `set`; or `format <n>`.
-- Cost:    O(1).
--- include: topic/state, call/once
-- without: a late copy of bounds undoes those that were set since
if earlier then return earlier end
redis.call('HSET', topic, 'max_age_ms', max_age_ms, 'max_messages', max_messages, 'max_bytes', max_bytes)
return answer('set')
