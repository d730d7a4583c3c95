-- What a topic has: how much, who reads it, and how far each is.
-- Moves:   nothing.
-- Replies: {server time, how many were published, how many are here, their bytes, when the oldest was published, its most ms, messages and
--          bytes, {subscription, first unread, last pulled, pulled and not acked, ...}, {member, subscription, seen, pulled and not acked,
--          ...}, {subscription that was cut off, when, first and last that it has lost, ...}}; or `format <n>`.
-- Cost:    O(subscriptions + members), and a few entries if another program has added some.
--- include: call/clock, topic/state, topic/first_of_ours, topic/lost, topic/fields
local function digits(number) return string.format('%.0f', number) end
local field = fields_of({ [''] = true, at = true, ours = true, member = true, seen = true, cut = true })
local held, oldest = 0, ''
local entry = redis.call('XRANGE', messages, '-', '+', 'COUNT', 1)[1]
if entry then
  oldest = string.match(entry[1], '^%d+')
  -- Another program may have added it.
  local message = first_of_ours()
  -- with `tonumber(field.gone_bytes or 0)` for `message and tonumber(message[2][4]) - #message[2][2] or tonumber(field.gone_bytes or 0)`: messages that were read count
  held = published_bytes - (message and tonumber(message[2][4]) - #message[2][2] or tonumber(field.gone_bytes or 0))
end
local subscriptions, members, cut_off, pulled_by = {}, {}, {}, {}
local scores = redis.call('ZRANGE', floors, 0, -1, 'WITHSCORES')
for at = 1, #scores, 2 do
  local name = scores[at]
  local pulled = redis.call('XPENDING', messages, name)
  for _, one in ipairs(pulled[4] or {}) do pulled_by[one[1]] = one[2] end
  -- A version that kept `at` alone may have noted there what another program has added: then the floor says more.
  local floor_before = tonumber(scores[at + 1]) - 1
  -- with `field['at:' .. name]` for `field['ours:' .. name] or field['at:' .. name]`: the number of what another program has added is told as that of a message
  local pulled_until = number_of(field['ours:' .. name] or field['at:' .. name])
  if pulled_until < floor_before or pulled_until > last then pulled_until = floor_before end
  for _, value in ipairs({ name, scores[at + 1], digits(pulled_until), digits(pulled[1]) }) do
    subscriptions[#subscriptions + 1] = value
  end
end
for name, value in pairs(field) do
  local member, lost = string.match(name, '^member:(.*)$'), string.match(name, '^cut:(.*)$')
  if member then
    for _, one in ipairs({ member, value, field['seen:' .. member] or '0', tostring(pulled_by[member] or 0) }) do
      members[#members + 1] = one
    end
  elseif lost then
    cut_off[#cut_off + 1] = lost
    for number in string.gmatch(lost_by(value), '%d+') do cut_off[#cut_off + 1] = number end
  end
end
return {
  now_text, digits(last), digits(length), digits(held), oldest, field.max_age_ms or digits(default_age_ms),
  field.max_messages or digits(default_messages), field.max_bytes or digits(default_bytes), subscriptions, members, cut_off,
}
