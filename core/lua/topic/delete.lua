-- Removes a topic, whatever is under its keys, so that one that is damaged can be made anew.
-- Moves:   nothing.
-- Replies: `deleted`.
-- Cost:    O(1): the server frees the messages beside its other work.
--- include: call/once
-- without: a late copy removes a topic that was made since
if earlier then return earlier end
redis.call('UNLINK', topic, messages, floors, news)
return answer('deleted')
