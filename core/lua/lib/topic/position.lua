-- How far a subscription is.
-- Needs: `topic`, `messages`, `last`, `first_id`, `number_of`, `size_of`, `is_ours`, `is_before`. Gives: `position`, `read_until`.

local function minus_one(digits)
  if #digits < 16 then return string.format('%.0f', digits - 1) end
  local head, digit, zeros = string.match(digits, '^(%d-)([1-9])(0*)$')
  return head .. digit - 1 .. string.rep('9', #zeros)
end
-- The highest id before this one; nothing before the lowest one.
local function before(id)
  local ms, number = string.match(id, '^(%d+)%-(%d+)$')
  -- with `true` for `number ~= '0'`: acks free nothing before an entry with the number 0
  if number ~= '0' then return ms .. '-' .. minus_one(number) end
  if ms ~= '0' then return minus_one(ms) .. '-18446744073709551615' end
end

-- The last message that is not behind this id, in a look at so many entries, or at so many bytes and an entry; or nothing, and where a later look goes on.
local function last_of_ours(from, many, many_bytes)
  local looked, bytes, largest = 0, 0, 1
  while from and looked < many and bytes <= many_bytes do
    -- With few small ones behind them it is not known how large the next ones are.
    -- with `local count = 10`: a look reads ten large entries of another program at once
    local count = math.max(1, math.min(10, math.floor(looked / 3), math.floor((many_bytes - bytes) / largest)))
    -- An ACL that was written for an older version may not permit the look: then it finds none.
    -- with `call` for `pcall`: an ACL that was written for an older version ends each pull
    local entries = redis.pcall('XREVRANGE', messages, from, '-', 'COUNT', count)
    for _, entry in ipairs(entries) do
      -- with `true` for `is_ours(entry)`: the number of what another program has added is taken for that of a message
      if is_ours(entry) then return entry[1] end
      local size = size_of(entry)
      bytes, largest = bytes + size, math.max(largest, size)
    end
    looked = looked + #entries
    from = #entries == count and before(entries[count][1])
  end
  return nil, from
end

-- Of a subscription: the id of the last entry that it has pulled, and of the last message of ours; the last entry of another program that any
-- subscription has pulled; the tag; how many calls have published; and the message that a look has found.
local function position(subscription)
  local at, ours, noted_tag, others, calls, found = unpack(redis.call(
    'HMGET', topic, 'at:' .. subscription, 'ours:' .. subscription, 'tag:' .. subscription, 'has_others', 'calls',
    'read:' .. subscription))
  -- A version that kept no id of them may have pulled some anywhere.
  if others == '1' then others = '18446744073709551615-18446744073709551615' end
  if not ours then
    -- An older version kept `at` alone. Where nothing is left of what it has pulled, only an entry of another program has a number that cannot be.
    ours = last_of_ours(at, 10, 8388608) or not others and number_of(at) <= last and at or '0-0'
  end
  return at, ours, others, noted_tag, calls, found
end

-- The id of the last message of ours up to which a subscription with this floor has read everything, by the summary of what it has pulled; or nothing, if a look at a few entries
-- does not find it: then later calls go on with that look, however many others are pulled by then.
local function read_until(subscription, floor, pulled, ours, others)
  local oldest = pulled[1] > 0 and pulled[2]
  -- What lies behind all messages that were pulled is of another program, whatever its number is.
  -- without `or is_before(ours, oldest)`: what a tool has pulled for one subscription removes messages that another one has not read
  if not oldest or is_before(ours, oldest) then return ours end
  -- With all of these before the first message, this is none of them, and there is none before it.
  -- without: long after another program has added something, acks read messages
  -- with `is_before(others, first_id)` for `is_before(others, first_id) and not is_before(oldest, first_id)`: an entry of another program before the first message is taken for one
  if others and is_before(others, first_id) and not is_before(oldest, first_id) then others = nil end
  -- without `not others and`: what another program has added takes the place of a message
  -- without `and number_of(oldest) > 0`: what an older version has pulled of another program ends each ack
  -- without `and number_of(oldest) <= last`: what another program has pulled for a subscription, with a number that no message has, keeps all
  if not others and number_of(oldest) > 0 and number_of(oldest) <= last then
    return string.match(oldest, '^%d+') .. string.format('-%.0f', number_of(oldest) - 1)
  end
  local back = 'back:' .. subscription
  local noted = redis.call('HGET', topic, back)
  -- All that lies before what is pulled and not acked has been read.
  -- with `oldest` for `before(oldest)`: a message that was pulled and not acked is removed
  local from = before(oldest)
  -- with `noted` for `noted and is_before(noted, oldest)`: a cursor that an older version left takes messages away that a newer subscription of this name has not read
  if noted and is_before(noted, oldest) then from = noted end
  -- with `1e9` for `65536`: each ack behind large entries of another program reads many of them
  local entry, next_from = last_of_ours(from, 90, 65536)
  if entry then
    -- without: once a look has gone on, acks free nothing as long as one is always pulled
    if noted then redis.call('HDEL', topic, back) end
    -- What was found from an old cursor may be below what the floor says by now.
    if number_of(entry) + 1 < floor then return end
    -- Messages before it go when all subscriptions have read so far, which may be in a later call.
    -- without: what a look of one subscription has found is lost when another one is behind it
    redis.call('HSET', topic, 'read:' .. subscription, entry)
    return entry
  end
  -- without: where another program adds much between messages, acks free nothing as long as one is always pulled
  if next_from then redis.call('HSET', topic, back, next_from) elseif noted then redis.call('HDEL', topic, back) end
end
