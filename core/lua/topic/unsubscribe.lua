-- Ends a membership. What the member has pulled and not acked goes to the others of its subscription; behind the last one the subscription ends.
-- Moves:   nothing.
-- Replies: `left`, `ended` if the subscription did, or `stranger`; `more` if it has pulled more than one call hands over: it is a member
--          until another call has the rest; or `format <n>`.
-- Cost:    O(members + log n a message), at most 1,000 that are handed over, and 1,000 that go.
--- include: topic/state, topic/position, topic/trim, topic/fields, call/once
-- without: a late copy ends a membership that was made since
if earlier then return earlier end
local subscription = redis.call('HGET', topic, 'member:' .. member)
if not subscription then return answer('stranger') end
-- As many as one call hands over.
local MOST = 1000
local heir
for field, value in pairs(fields_of({ member = true })) do
  local other = string.match(field, '^member:(.*)$')
  if other ~= member and value == subscription then heir = other end
end
-- Another program may have destroyed it: then there is nothing to hand over.
local has_group = redis.call('ZSCORE', floors, subscription) and not redis.pcall('XPENDING', messages, subscription).err
if heir and has_group then
  local pulled = redis.call('XPENDING', messages, subscription, '-', '+', MOST, member)
  if #pulled > 0 then
    local claim = { 'XCLAIM', messages, subscription, heir, 0 }
    for _, one in ipairs(pulled) do claim[#claim + 1] = one[1] end
    -- Of a day ago: they are the next ones that are pulled.
    -- without `'IDLE', '86400000',`: what a member has left waits for the lease of its heir
    for _, word in ipairs({ 'IDLE', '86400000', 'JUSTID' }) do claim[#claim + 1] = word end
    -- without: what a member has pulled goes with it, and is lost
    redis.call(unpack(claim))
    -- without: the next pull may begin behind what a member has left
    redis.call('HDEL', topic, 'look:' .. subscription)
  end
  -- without: what a member has pulled beyond a thousand goes with it, and is lost
  if #pulled == MOST then return answer('more') end
end
local function leave()
  -- without: whoever has left is still a member
  redis.call('HDEL', topic, 'member:' .. member, 'seen:' .. member, 'got:' .. member, 'lease:' .. member)
end
if heir then
  leave()
  if has_group then
    -- without: consumers of members that have left stay for ever
    redis.call('XGROUP', 'DELCONSUMER', messages, subscription, member)
  end
  return answer('left')
end
-- Without its floor it has ended, whatever of this a server that dies keeps (`docs/servers.md`).
-- without: a subscription that has ended keeps messages
redis.call('ZREM', floors, subscription)
-- without: the group of a subscription that has ended stays for ever
if has_group then redis.call('XGROUP', 'DESTROY', messages, subscription) end
-- without 2 lines: the cursor of a subscription that has ended stays for ever
redis.call('HDEL', topic, 'cut:' .. subscription, 'at:' .. subscription, 'ours:' .. subscription, 'look:' .. subscription,
  'back:' .. subscription, 'read:' .. subscription, 'tag:' .. subscription, 'pulled:' .. subscription)
leave()
-- without: what only a subscription that has ended had not read stays until the next message
trim_read()
return answer('ended')
