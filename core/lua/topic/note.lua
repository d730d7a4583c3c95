-- Puts a topic on the list that a member has. The tag says which subscription it is.
-- Moves:   nothing.
-- Replies: `noted`.
-- Cost:    O(1).
--- include: call/once
-- without: a late copy lists a topic that the member has left
if earlier then return earlier end
-- A server without memory lets a member come back that is on it: its first write must not grow.
-- without: a server without memory does not let a member come back
if redis.call('HEXISTS', member_topics, name) == 1 then redis.call('HDEL', member_topics, '') end
redis.call('HSET', member_topics, name, tag)
return answer('noted')
