-- Ends a membership. What the member has pulled and not acked goes to the others of its subscription; behind the last one the subscription ends.
-- Moves:   nothing.
-- Replies: `left`, `ended` if the subscription did, or `stranger`; or `format <n>`.
-- Cost:    O(members + what the member has pulled), and at most 1,000 messages that go.
--- include: topic/state, topic/trim, call/once
-- without: a late copy ends a membership that was made since
if earlier then return earlier end
local subscription = redis.call('HGET', topic, 'member:' .. member)
if not subscription then return answer('stranger') end
local heir
local fields = redis.call('HGETALL', topic)
for at = 1, #fields, 2 do
  local other = string.match(fields[at], '^member:(.*)$')
  if other and other ~= member and fields[at + 1] == subscription then heir = other end
end
-- without: whoever has left is still a member
redis.call('HDEL', topic, 'member:' .. member, 'seen:' .. member, 'got:' .. member, 'lease:' .. member)
-- Another program may have destroyed it: then there is nothing to hand over.
local has_group = redis.call('ZSCORE', floors, subscription) and not redis.pcall('XPENDING', messages, subscription).err
if heir then
  if has_group then
    while true do
      local pulled = redis.call('XPENDING', messages, subscription, '-', '+', 100, member)
      for _, one in ipairs(pulled) do
        -- Of a day ago: it is the next one that is pulled.
        -- without `'IDLE', 86400000,`: what a member has left waits for the lease of its heir
        redis.call('XCLAIM', messages, subscription, heir, 0, one[1], 'IDLE', 86400000, 'JUSTID')
      end
      if #pulled == 0 then break end
    end
    -- without: consumers of members that have left stay for ever
    redis.call('XGROUP', 'DELCONSUMER', messages, subscription, member)
  end
  return answer('left')
end
-- without: the cursor of a subscription that has ended stays for ever
redis.call('HDEL', topic, 'cut:' .. subscription, 'at:' .. subscription, 'look:' .. subscription)
-- without: a subscription that has ended keeps messages
redis.call('ZREM', floors, subscription)
-- without: a subscription that has ended cannot be made again
if has_group then redis.call('XGROUP', 'DESTROY', messages, subscription) end
local lowest = redis.call('ZRANGE', floors, 0, 0, 'WITHSCORES')[2]
-- without: what only a subscription that has ended had not read stays until the next message
if lowest then trim_to(tonumber(lowest)) end
return answer('ended')
