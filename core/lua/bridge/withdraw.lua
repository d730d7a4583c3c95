-- Sees to it that a batch never comes into another queue's list or sorted set, unless it is there.
-- Moves:   nothing.
-- Keys:    the other queue's list or sorted set; a hash of the bridge beside it.
-- Replies: `published` (it is in), or `withdrawn`.
-- Cost:    O(1).
local known = redis.call('HGET', published, lane)
-- without: jobs that are in the other queue come back to duly, and run twice
if known == sequence then return 'published' end
-- A server without memory refuses the first write that grows, and no other.
redis.call('HDEL', published, '')
-- Any copy of the call that publishes it comes late now.
-- without: a late copy of a batch puts jobs there that are in duly again
if not known or tonumber(known) < tonumber(sequence) then
  redis.call('HSET', published, lane, string.format('%.0f', sequence + 1))
end
return 'withdrawn'
