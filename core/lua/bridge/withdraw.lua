-- Sees to it that a batch never comes into another queue's list or sorted set, unless it is there.
-- Moves:   nothing.
-- Keys:    the other queue's list or sorted set; a hash of the bridge beside it.
-- Replies: `published` (it is in), or `withdrawn`.
-- Cost:    O(1).
local known = redis.call('HGET', published, lane)
-- A server without memory refuses the first write that grows, and no other.
redis.call('HDEL', published, '')
-- A newer server confirms at once to a connection that has written nothing: each answer is one that was written.
-- without 4 lines: jobs that are in the other queue come back to duly, and run twice
if known == sequence then
  -- without: a batch that is in is confirmed though no replica has it
  redis.call('HSET', published, lane, sequence)
  return 'published'
end
-- Any copy of the call that publishes it comes late now.
local withdrawn = string.format('%.0f', sequence + 1)
-- without: a batch that is withdrawn makes an earlier one of its lane come again
if known and tonumber(known) > tonumber(sequence) then withdrawn = known end
-- without: a late copy of a batch puts jobs there that are in duly again
redis.call('HSET', published, lane, withdrawn)
return 'withdrawn'
