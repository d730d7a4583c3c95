-- Puts a queue on the list of queues, or notes that it is used again.
-- Moves:   nothing.
-- Replies: `ok`.
-- Cost:    O(log queues), once in some minutes a client. Right when sent twice; a copy that comes behind `unregister` lists the queue again.
--- include: call/clock
local noted_partitions = string.match(redis.call('HGET', queues_used, name) or '', ' (%d+)$')
-- with `partitions` for `math.max(partitions, tonumber(noted_partitions or 0))`: a worker of one part hides the parts behind it
local most = math.max(partitions, tonumber(noted_partitions or 0))
redis.call('ZADD', queues, 0, name)
redis.call('HSET', queues_used, name, string.format('%.0f %.0f', now, most))
return 'ok'
