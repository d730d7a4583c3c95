-- Notes that a member has read messages. What all subscriptions have read goes.
-- Moves:   nothing.
-- Replies: how many were pulled and not acked before, none if the messages are those of an earlier subscription (`tag`); `stranger`; `cut <ms> <first> <last> <subscription>`; or `format <n>`.
-- Cost:    O(log n) a message, and at most 1,000 that go. Right when sent twice.
--- include: topic/state, topic/first_of_ours, topic/trim, topic/lost, topic/member
local at, noted_tag, has_others = unpack(redis.call(
  'HMGET', topic, 'at:' .. subscription, 'tag:' .. subscription, 'has_others'))
-- The members' messages were those of an earlier subscription of this name.
-- without: a late copy of an ack takes away what a newer subscription has pulled
if tag ~= '' and tag ~= noted_tag then return 0 end
-- A server without memory lets readers finish: the first write does not grow.
local acked = 0
for at = first_item, #ARGV do acked = acked + redis.call('XACK', messages, subscription, ARGV[at]) end
local pulled = redis.call('XPENDING', messages, subscription)
local unread = number_of(at) + 1
-- without: an ack takes away what others of the subscription have not acked
if pulled[1] > 0 then unread = number_of(pulled[2]) end
-- What another program has added has a number that is not ours.
-- without 4 lines: what another program has added removes a message that nobody has read
if has_others then
  -- Where that is much, the ack behind it finds out.
  -- with `1000` for `10`: much that another program has added makes each ack read all of it
  local entry, is_end = first_of_ours(pulled[1] > 0 and pulled[2] or behind(at), 10)
  -- without `is_end and last + 1 or`: what a subscription has read that keeps up is never removed
  unread = entry and number_of(entry[1]) or is_end and last + 1 or 0
end
-- without: what was read is never removed
if unread > floor then redis.call('ZADD', floors, string.format('%.0f', unread), subscription) end
-- Also if it raises no floor: an earlier one may have left some.
-- without: what all have read stays until the next message
trim_to(tonumber(redis.call('ZRANGE', floors, 0, 0, 'WITHSCORES')[2]))
return acked
