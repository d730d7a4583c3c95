-- Puts a queue on the list of queues, or notes that it is used again.
-- Moves:   nothing.
-- Replies: `ok`.
-- Cost:    O(log queues), once an hour a client. Right when sent twice; a copy that comes behind `unregister` lists the queue again.
--- include: call/clock
local noted_partitions = string.match(redis.call('HGET', queues_used, name) or '', ' (%d+)$')
local known = partitions
-- Who has opened one part knows only that there are those before it.
-- without: a worker of one part hides the parts behind it
-- with `true` for `knows_all == 0`: a queue that has fewer parts than it once had is listed with those that nobody reads
if knows_all == 0 then known = math.max(partitions, tonumber(noted_partitions or 0)) end
redis.call('ZADD', queues, 0, name)
redis.call('HSET', queues_used, name, string.format('%.0f %.0f', now, known))
return 'ok'
