-- Puts a batch of jobs into another queue's list or sorted set, once, with the sequence of that batch.
-- Moves:   nothing of ours: the batch stays in `departing` until it is named as finished.
-- Keys:    the other queue's list or sorted set; a hash of the bridge beside it.
-- Replies: `published`, `known` (this batch is in), or `behind <sequence>` (a later one of its lane is).
-- Cost:    O(log n) a job, at most 500.
local known = redis.call('HGET', published, lane)
-- It was sent again, perhaps by another program.
-- with `false` for `known == sequence`: a batch that was sent again runs twice
if known == sequence then
  -- A newer server confirms at once to a connection that has written nothing. A server without memory refuses the first write that grows.
  redis.call('HDEL', published, '')
  -- without: a batch that is known there is confirmed though no replica has it
  redis.call('HSET', published, lane, sequence)
  return 'known'
end
-- A late copy of an earlier batch, which is in.
-- without: a late copy of a batch runs its jobs once more
if known and tonumber(known) > tonumber(sequence) then return 'behind ' .. known end
-- ARGV from first_item: the jobs, the oldest first; for a sorted set each behind its score.
if order == 'score' then
  redis.call('ZADD', target, unpack(ARGV, first_item))
elseif order == 'left' then
  redis.call('RPUSH', target, unpack(ARGV, first_item))
else
  redis.call('LPUSH', target, unpack(ARGV, first_item))
end
redis.call('HSET', published, lane, sequence)
return 'published'
