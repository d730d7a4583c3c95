-- Takes a queue off the list of queues, unless it was used meanwhile: `used` is what the list said of it, `0 0` for nothing.
-- Moves:   nothing.
-- Replies: how many were taken off.
-- Cost:    O(log queues). Right when sent twice.
-- without: a queue that is used again is forgotten
if (redis.call('HGET', queues_used, name) or '0 0') ~= used then return 0 end
-- In this order: a name without that text would stay on the list (`docs/servers.md`).
local removed = redis.call('ZREM', queues, name)
redis.call('HDEL', queues_used, name)
return removed
