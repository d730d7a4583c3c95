-- Notes that a member has read messages. What all subscriptions have read goes.
-- Moves:   nothing.
-- Replies: how many were pulled and not acked before, none if the messages are those of an earlier subscription (`tag`); `stranger`; `cut <ms> <first> <last> <subscription>`; or `format <n>`.
-- Cost:    O(log n) a message, and about 1,000 that go. Right when sent twice.
--- include: topic/state, topic/position, topic/trim, topic/lost, topic/member
local _, ours, others, noted_tag = position(subscription)
-- The members' messages were those of an earlier subscription of this name.
-- without: a late copy of an ack takes away what a newer subscription has pulled
if tag ~= '' and tag ~= noted_tag then return 0 end
-- A server without memory lets readers finish: the first write does not grow.
local acked = 0
for at = first_item, #ARGV do acked = acked + redis.call('XACK', messages, subscription, ARGV[at]) end
local read = read_until(subscription, floor, redis.call('XPENDING', messages, subscription), ours, others)
local unread = read and math.max(floor, number_of(read) + 1) or floor
-- without: what was read is never removed
if unread > floor then redis.call('ZADD', floors, string.format('%.0f', unread), subscription) end
-- Also if it raises no floor: an earlier one may have left some.
-- without: what all have read stays until the next message
trim_read(unread, read)
return acked
