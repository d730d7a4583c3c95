-- How far a subscription is.
-- Needs: `topic`, `messages`, `last`, `first_id`, `number_of`, `size_of`, `is_ours`, `is_before`. Gives: `position`, `read_until`.

-- Of a subscription: the id of the last entry that it has pulled, and of the last message of ours; the last entry of another program that any
-- subscription has pulled; the tag; how many calls have published; and the message that a look has found.
local function position(subscription)
  local at, ours, noted_tag, others, calls, found = unpack(redis.call(
    'HMGET', topic, 'at:' .. subscription, 'ours:' .. subscription, 'tag:' .. subscription, 'has_others', 'calls',
    'read:' .. subscription))
  -- A version that kept no id of them may have pulled some anywhere.
  if others == '1' then others = '18446744073709551615-18446744073709551615' end
  if not ours then
    -- An older version kept `at` alone. An ACL that was written for it may not permit the look: then it finds none.
    -- with `call` for `pcall`: an ACL that was written for an older version ends each pull
    for _, entry in ipairs(redis.pcall('XREVRANGE', messages, at, '-', 'COUNT', 10)) do
      if not ours and is_ours(entry) then ours = entry[1] end
    end
    -- Where nothing is left of what it has pulled, only an entry of another program has a number that cannot be.
    ours = ours or not others and number_of(at) <= last and at or '0-0'
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
  local from, bytes = oldest, 0
  -- All that lies before what is pulled and not acked has been read.
  -- with `noted` for `noted and is_before(noted, oldest)`: a cursor that an older version left takes messages away that a newer subscription of this name has not read
  if noted and is_before(noted, oldest) then from = noted end
  for turn = 1, 10 do
    -- Of large ones, few.
    local count = turn == 1 and 2 or 10
    local entries = redis.pcall('XREVRANGE', messages, from, '-', 'COUNT', count)
    for _, entry in ipairs(entries) do
      bytes = bytes + size_of(entry)
      -- with `is_ours(entry)` for `entry[1] ~= from and is_ours(entry)`: a message that was pulled and not acked is removed
      -- with `entry[1] ~= from` for `entry[1] ~= from and is_ours(entry)`: the number of what another program has added is taken for that of a message
      if entry[1] ~= from and is_ours(entry) then
        -- without: once a look has gone on, acks free nothing as long as one is always pulled
        if noted then redis.call('HDEL', topic, back) end
        -- What was found from an old cursor may be below what the floor says by now.
        if number_of(entry[1]) + 1 < floor then return end
        -- Messages before it go when all subscriptions have read so far, which may be in a later call.
        -- without: what a look of one subscription has found is lost when another one is behind it
        redis.call('HSET', topic, 'read:' .. subscription, entry[1])
        return entry[1]
      end
    end
    if #entries < count then
      from = nil
      break
    end
    from = entries[#entries][1]
    -- without: each ack behind large entries of another program reads many of them
    if bytes > 65536 then break end
  end
  -- without: where another program adds much between messages, acks free nothing as long as one is always pulled
  if from then redis.call('HSET', topic, back, from) elseif noted then redis.call('HDEL', topic, back) end
end
