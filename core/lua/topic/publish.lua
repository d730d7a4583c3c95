-- Appends messages to a topic, and wakes all who wait for them. What is beyond the bounds of the topic goes; a subscription that has not
-- read it is cut off, and its members hear of that.
-- Moves:   nothing.
-- Replies: ids with ' ' between, `;`, and the names of the subscriptions that were cut off, with ' ' between; or `format <n>`.
-- Cost:    O(1) a message, and about 1,000 that go by each of what all have read and the bounds.
--- include: call/clock, topic/state, topic/position, topic/trim, call/once
-- without: a publish that is sent again publishes twice
if earlier then return earlier end
local calls, gone_bytes, most_ms, most_messages, most_bytes = unpack(redis.call(
  'HMGET', topic, 'calls', 'gone_bytes', 'max_age_ms', 'max_messages', 'max_bytes'))
calls, gone_bytes = tonumber(calls or 0), tonumber(gone_bytes or 0)
most_ms, most_messages = tonumber(most_ms or default_age_ms), tonumber(most_messages or default_messages)
most_bytes = tonumber(most_bytes or default_bytes)

local number, bytes_before, ms_before = last, published_bytes, last_ms
-- with `last_ms = now`: a clock that is set back stops a topic
last_ms = math.max(now, last_ms)
local ids, bytes_until = {}, {}
for at = first_item, #ARGV do
  last, published_bytes, length = last + 1, published_bytes + #ARGV[at], length + 1
  bytes_until[#bytes_until + 1] = string.format('%.0f', published_bytes)
end
-- Before the messages: a server that dies may keep the first of these writes alone (`docs/servers.md`). Numbers without messages are a gap,
-- which is gone with what was before it; a message without its number would have that of the next one.
local function note(number_of_last, ms, bytes_now, calls_now)
  redis.call('HSET', topic, 'last', string.format('%.0f', number_of_last), 'last_ms', string.format('%.0f', ms),
    'bytes', string.format('%.0f', bytes_now), 'calls', string.format('%.0f', calls_now))
end
-- Behind the highest id that was ever used, also if what another program has added under it is gone again; or nothing, and why.
local function ms_behind_all()
  local told = redis.pcall('XINFO', 'STREAM', messages)
  for at = 1, #told, 2 do
    if told[at] == 'last-generated-id' then
      local ms = tonumber(string.match(told[at + 1], '^%d+'))
      -- A high one is no number of milliseconds, and larger than all that a number in Lua tells apart.
      return ms + math.max(1, ms / 2 ^ 51)
    end
  end
  return nil, told
end
local function add(at, by)
  ids[at] = string.format('%.0f-%.0f', last_ms, number + at)
  -- All bytes until here: the difference of two is what lies between them.
  return by('XADD', messages, ids[at], 'd', ARGV[first_item + at - 1], 'b', bytes_until[at])
end
note(last, last_ms, published_bytes, calls + 1)
local added = add(1, redis.pcall)
-- Another program has added something with a higher id.
if type(added) == 'table' and string.find(added.err, 'equal or smaller', 1, true) then
  local higher_ms, refused = ms_behind_all()
  if higher_ms then
    last_ms = higher_ms
    note(last, last_ms, published_bytes, calls + 1)
  end
  -- with `added` for `higher_ms and add(1, redis.pcall) or refused`: what another program has added with a higher id ends each call that publishes
  added = higher_ms and add(1, redis.pcall) or refused
end
if type(added) == 'table' then
  -- without: numbers without messages make a later call remove too many
  note(number, ms_before, bytes_before, calls)
  return added
end
for at = 2, #bytes_until do add(at, redis.call) end
-- Who waits has seen so many calls, and hears of each later one.
-- without: the stream on which members wait grows for ever
redis.call('DEL', news)
-- While its slot moves, the server refuses a key that is not there. The message is in, and who waits looks once a second.
-- without: nobody hears of a message
-- with `redis.call` for `redis.pcall`: a message that is in was not published, says the call, and its caller publishes it again
redis.pcall('XADD', news, string.format('%.0f-0', calls + 1), 'n', '')

-- What all have read goes first, if an ack has left some.
local lowest = trim_read()
-- Is the first message that may be there beyond a bound? The last one stays.
local function is_beyond()
  -- without: a last message that is larger than the bound goes
  if first >= last then return false end
  -- with `false` for `first <= last - most_messages`: a topic keeps more messages than its bound says
  -- with `first_ms <= now - most_ms` for `first_ms < now - most_ms`: a message does not stay for as long as its age
  -- with `false` for `first_ms < now - most_ms`: messages that are too old stay
  return first <= last - most_messages or first_ms < now - most_ms
    -- with `false` for `published_bytes - gone_bytes > most_bytes`: a topic keeps more bytes than its bound says
    or published_bytes - gone_bytes > most_bytes
end
-- What is known of the first one may be older than what is there. So the oldest are read until one is within the bounds: as many as one
-- call adds at most, first one, and then as many as are likely to go.
local gone, seen, is_within, looked, looked_bytes, largest, count, may_skip = nil, nil, false, 0, 0, 1, 1, true
-- The last message of ours that goes; nothing where some were passed over. Of each entry that was looked at: whether it is one.
local last_gone, is_message_at = '0-0', {}
-- More than one call adds, or a topic of large messages would grow.
local MOST_BYTES = 8 * 1024 * 1024
-- without `and looked_bytes < MOST_BYTES`: many large messages that go at once keep all queues of the server waiting
while looked < 1000 and looked_bytes < MOST_BYTES and not is_within and is_beyond() do
  local start = seen and behind(seen) or '-'
  -- Behind one that goes, all of its millisecond go, or as many as are too many: those of a batch are not read one by one.
  local skipped_until = math.min(first_ms < now - most_ms and last or last - most_messages, first + 999 - looked)
  -- with `false` for `may_skip and gone and gone == seen and skipped_until > first`: a batch that makes another one go reads all of it
  local is_skip = may_skip and gone and gone == seen and skipped_until > first
  if is_skip then start, count = string.match(gone, '^%d+') .. string.format('-%.0f', skipped_until), 1 end
  local entries = redis.call('XRANGE', messages, start, '+', 'COUNT', math.min(count, 1000 - looked))
  if #entries == 0 then break end
  for _, entry in ipairs(entries) do
    local is_message = is_ours(entry)
    is_message_at[entry[1]] = is_message
    if is_skip then
      may_skip = is_message and number_of(entry[1]) > first
      -- An entry of another program does not say which message is the last before it.
      if not is_message then break end
      looked = looked + number_of(entry[1]) - first
      last_gone = nil
      gone = string.match(gone, '^%d+') .. string.format('-%.0f', number_of(entry[1]) - 1)
    end
    local size = size_of(entry)
    looked, looked_bytes, largest, seen = looked + 1, looked_bytes + size, math.max(largest, size), entry[1]
    first_ms = math.max(first_ms, ms_of(entry[1]))
    -- with `if true then` for `if is_message then`: what another program has added ends each call that publishes
    if is_message then first, gone_bytes = number_of(entry[1]), tonumber(entry[2][4]) - #entry[2][2] end
    is_within = not is_beyond()
    if is_within then break end
    if is_message then first, gone_bytes, gone, last_gone = first + 1, tonumber(entry[2][4]), entry[1], entry[1] end
  end
  local likely = math.max(last - most_messages - first + 1, first_ms < now - most_ms and 100 or 1)
  likely = math.max(likely, math.floor((published_bytes - gone_bytes - most_bytes) / largest))
  -- Few: the next ones may be much larger.
  -- with `100` for `10`: behind small messages a publish reads many large ones
  count = math.min(8 * count, likely, 10, math.max(1, math.floor((MOST_BYTES - looked_bytes) / largest)))
end
-- One look for all subscriptions. Where another program has added very much, what goes may be a message.
local function find_last_gone()
  local from, many = gone, 1
  for _ = 1, 100 do
    local entries = redis.call('XREVRANGE', messages, from, '-', 'COUNT', many)
    for _, entry in ipairs(entries) do
      -- with `false` for `is_ours(entry)`: what a subscription has not pulled is lost without a word
      if is_ours(entry) then return entry[1] end
    end
    if #entries < many then return '0-0' end
    from, many = entries[#entries][1], 11
  end
  return gone
end
-- Has this subscription lost a message of ours with what goes now? An entry of another program that goes is pulled by nobody any more.
local function has_lost(name)
  local _, ours = position(name)
  last_gone = last_gone or find_last_gone()
  -- without: what a subscription has not pulled is lost without a word
  if is_before(ours, last_gone) then return true end
  local pulled = redis.pcall('XPENDING', messages, name, '-', gone, 1000)
  -- Another program may have destroyed its group. Or it holds more than one call looks at.
  if pulled.err or #pulled == 1000 then return true end
  local others = {}
  for at, one in ipairs(pulled) do
    -- with `nil` for `is_message_at[one[1]]`: a cut reads again what each subscription holds of another program
    local is_message = is_message_at[one[1]]
    if is_message == nil then
      local entry = redis.call('XRANGE', messages, one[1], one[1])[1]
      is_message = entry and is_ours(entry)
    end
    -- with `false` for `is_message`: what a subscription has pulled and not acked is lost without a word
    if is_message then return true end
    others[at] = one[1]
  end
  -- without: what another program had added, and is gone, was pulled for ever
  if #others > 0 then redis.call('XACK', messages, name, unpack(others)) end
  return false
end
local cut_off = {}
if gone and lowest and lowest <= number_of(gone) then
  local kept = string.format('%.0f', number_of(gone) + 1)
  -- Who is cut off is noted before its messages go: as far as one call comes.
  for _, name in ipairs(redis.call('ZRANGEBYSCORE', floors, '-inf', '(' .. kept)) do
    -- with `true` for `has_lost(name)`: a subscription that has read all is cut off, as an entry of another program is in the way of its acks
    if has_lost(name) then
      local unread = redis.call('ZSCORE', floors, name)
      -- without: members of a subscription that was cut off hear that they are strangers
      redis.call('HSET', topic, 'cut:' .. name, string.format('%.0f %s %.0f', now, unread, number_of(gone)))
      -- without: a subscription that was cut off goes on behind what it has lost
      redis.call('ZREM', floors, name)
      -- without: the group of a subscription that was cut off stays for ever
      redis.call('XGROUP', 'DESTROY', messages, name)
      -- without 2 lines: the cursor of a subscription that is gone stays for ever
      redis.call('HDEL', topic, 'at:' .. name, 'ours:' .. name, 'look:' .. name, 'back:' .. name,
        'read:' .. name, 'tag:' .. name, 'pulled:' .. name)
      cut_off[#cut_off + 1] = name
    else
      redis.call('ZADD', floors, kept, name)
    end
  end
  -- with `true` for `not is_within`: the thousandth entry goes, though it is a message within the bounds
elseif (looked == 1000 or looked_bytes >= MOST_BYTES) and not gone and not is_within then
  -- So much of another program goes without a message.
  -- without: behind very much that another program has added, bounds remove nothing
  gone = seen
end
if gone then trim(gone) end
-- without 4 lines: each call reads the oldest message
if looked > 0 then
  redis.call('HSET', topic, 'first', string.format('%.0f-%.0f', first_ms, first),
    'gone_bytes', string.format('%.0f', gone_bytes))
end
return answer(table.concat(ids, ' ') .. ';' .. table.concat(cut_off, ' '))
