-- Appends messages to a topic, and wakes all who wait for them. What is beyond the bounds of the topic goes; a subscription that has not
-- read it is cut off, and its members hear of that.
-- Moves:   nothing.
-- Replies: ids with ' ' between, `;`, and the names of the subscriptions that were cut off, with ' ' between; or `format <n>`.
-- Cost:    O(1) a message, and at most 1,000 that go.
--- include: call/clock, topic/state, topic/first_of_ours, topic/trim, call/once
-- without: a publish that is sent again publishes twice
if earlier then return earlier end
local bytes, calls, gone_bytes, look_at, most_ms, most_messages, most_bytes = unpack(redis.call(
  'HMGET', topic, 'bytes', 'calls', 'gone_bytes', 'look_at', 'max_age_ms', 'max_messages', 'max_bytes'))
bytes, calls = tonumber(bytes or 0), tonumber(calls or 0)
gone_bytes, look_at = tonumber(gone_bytes or 0), tonumber(look_at or 0)
most_ms, most_messages = tonumber(most_ms or default_age_ms), tonumber(most_messages or default_messages)
most_bytes = tonumber(most_bytes or default_bytes)

local number, bytes_before, ms_before = last, bytes, last_ms
-- with `last_ms = now`: a clock that is set back stops a topic
last_ms = math.max(now, last_ms)
local ids, bytes_until = {}, {}
for at = first_item, #ARGV do
  last, bytes, length = last + 1, bytes + #ARGV[at], length + 1
  bytes_until[#bytes_until + 1] = string.format('%.0f', bytes)
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
note(last, last_ms, bytes, calls + 1)
local added = add(1, redis.pcall)
-- Another program has added something with a higher id.
if type(added) == 'table' and string.find(added.err, 'equal or smaller', 1, true) then
  local higher_ms, refused = ms_behind_all()
  if higher_ms then
    last_ms = higher_ms
    note(last, last_ms, bytes, calls + 1)
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

-- The number of the first message that is within all bounds. A message is read only when the bounds of age and bytes may be reached.
-- with `local kept = first`: a topic keeps more messages than its bound says
local kept = math.max(first, last - most_messages + 1)
if now >= look_at then
  local young = first_of_ours(string.format('%.0f', math.max(0, now - most_ms)), 1000)
  if young then
    -- without: messages that are too old stay
    kept = math.max(kept, number_of(young[1]))
    -- with `most_ms + 2` for `most_ms + 1`: a message stays for a millisecond longer than its age
    redis.call('HSET', topic, 'look_at', string.format('%.0f', tonumber(string.match(young[1], '^%d+')) + most_ms + 1))
  end
end
-- As many messages as one call adds at most, in looks at as many as are likely to go, by the largest one yet.
local from, looked, largest = '-', 0, 0
local known_gone = gone_bytes
while bytes - gone_bytes > most_bytes and looked < 1000 do
  local count = 1
  if largest > 0 then count = math.floor((bytes - gone_bytes - most_bytes) / largest) end
  count = math.max(1, math.min(count, 100, 1000 - looked))
  local entries = redis.call('XRANGE', messages, from, '+', 'COUNT', count)
  local is_enough = #entries == 0
  for _, entry in ipairs(entries) do
    from = behind(entry[1])
    looked, largest = looked + 1, math.max(largest, #entry[2][2])
    -- with `if true then`: what another program has added ends each call that publishes
    if is_ours(entry) then
      gone_bytes = tonumber(entry[2][4]) - #entry[2][2]
      -- without `number_of(entry[1]) == last or`: a last message that is larger than the bound goes
      is_enough = number_of(entry[1]) == last or bytes - gone_bytes <= most_bytes
      if is_enough then break end
      -- without: a topic keeps more bytes than its bound says
      kept = math.max(kept, number_of(entry[1]) + 1)
    end
  end
  if is_enough then break end
end
-- without: behind very much that another program has added, the bound of bytes removes nothing
if looked == 1000 then kept = math.max(kept, first + 1) end
if gone_bytes ~= known_gone then redis.call('HSET', topic, 'gone_bytes', string.format('%.0f', gone_bytes)) end
-- What all have read goes, too, if the ack that found it left some.
local lowest = redis.call('ZRANGE', floors, 0, 0, 'WITHSCORES')[2]
if lowest then kept = math.max(kept, tonumber(lowest)) end
local cut_off = {}
if kept > first then
  -- Who is cut off is noted before its messages go: as far as one call comes.
  local going
  kept, going = reach(kept)
  for _, name in ipairs(redis.call('ZRANGEBYSCORE', floors, '-inf', '(' .. string.format('%.0f', kept))) do
    local unread = redis.call('ZSCORE', floors, name)
    -- without: members of a subscription that was cut off hear that they are strangers
    redis.call('HSET', topic, 'cut:' .. name, string.format('%.0f %s %.0f', now, unread, kept - 1))
    -- without: a subscription that was cut off goes on behind what it has lost
    redis.call('ZREM', floors, name)
    -- without: the group of a subscription that was cut off stays for ever
    redis.call('XGROUP', 'DESTROY', messages, name)
    -- without: the cursor of a subscription that is gone stays for ever
    redis.call('HDEL', topic, 'at:' .. name, 'look:' .. name, 'tag:' .. name)
    cut_off[#cut_off + 1] = name
  end
  trim(going)
end
return answer(table.concat(ids, ' ') .. ';' .. table.concat(cut_off, ' '))
