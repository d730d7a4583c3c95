-- Gives a member messages of topics: of each those that it, or another one of its subscription, has pulled so long ago without an ack
-- that they are pulled anew, then those that nobody has pulled. The first topics are served first: who calls changes the order.
-- Moves:   nothing.
-- Replies: of each topic {how many calls have published, `1` if there is more, id, how often it was pulled, data, ...}; `stranger`;
--          `cut <ms> <first> <last> <subscription>`; `format <n>`; or `failed`, if it is one of several and the server refuses a command.
-- Cost:    O(topics + log n a message), `most` and about `max_bytes` of them, and up to 1,000 in a topic that others have pulled.
--- include: clock
local given, bytes = 0, 0
local function has_room() return given < most and (bytes == 0 or bytes < max_bytes) end

-- The answer to the same call was lost: what it gave is given again, and nothing else.
local is_repeated = false
local function what_it_got(topic)
  local got = redis.pcall('HGET', topic, 'got:' .. member)
  if type(got) ~= 'string' or string.sub(got, 1, #call_id + 1) ~= call_id .. ' ' then return end
  return string.gmatch(string.sub(got, #call_id + 2), '%S+')
end
-- with `if false then`: a pull whose reply was lost leases what nobody got
if again == '1' then
  for at = 1, topic_count do
    if what_it_got((topic_keys(at))) then is_repeated = true end
  end
end

local function pull(topic, messages, floors)
  --- include: topic_state, topic_lost, topic_member
  -- A server without memory lets readers finish: its first write must not grow.
  -- without: a server without memory does not let members read
  redis.call('HDEL', topic, '')
  redis.call('HSET', topic, 'seen:' .. member, now_text, 'lease:' .. member, lease_ms)
  local calls, published_bytes = unpack(redis.call('HMGET', topic, 'calls', 'bytes'))
  published_bytes = tonumber(published_bytes or 0)
  local reply = { calls or '0', '0' }
  local ids, largest = {}, 1
  local function give(entry, pulled)
    local data = entry[2][2]
    given, bytes, largest = given + 1, bytes + #data, math.max(largest, #data)
    ids[#ids + 1] = entry[1]
    reply[#reply + 1] = entry[1]
    reply[#reply + 1] = pulled
    reply[#reply + 1] = data
  end

  if is_repeated then
    local got = what_it_got(topic) or function() end
    for id in got do
      -- What was acked meanwhile is over, and what another member has pulled by now is its own.
      local held = redis.call('XPENDING', messages, subscription, id, id, 1, member)[1]
      -- with `local entry = redis.call` for `local entry = held and redis.call`: a pull that is sent again gives what was acked
      local entry = held and redis.call('XRANGE', messages, id, id)[1]
      if entry then give(entry, held and held[4] or 1) end
    end
    return reply
  end

  -- Each member has the lease of its last pull. Of one that has left, nothing is known, and nothing is waited for.
  local leases = {}
  local function lease_of(other)
    leases[other] = leases[other] or tonumber(redis.call('HGET', topic, 'lease:' .. other) or 0)
    return leases[other]
  end
  -- Where the last look ended, if it did not come to the end: what waits behind many long leases is found, too.
  local look = 'look:' .. subscription
  local known_start = redis.call('HGET', topic, look) or nil
  local start = known_start or '-'
  local next_start = known_start
  for part = 1, 10 do
    if not has_room() then break end
    local pulled = redis.call('XPENDING', messages, subscription, start, '+', 100)
    for _, one in ipairs(pulled) do
      -- without `one[3] >= lease_of(one[2]) and`: messages are given to a second member at once
      -- without `and has_room()`: a pull gives more than was asked for
      if one[3] >= lease_of(one[2]) and has_room() then
        local entry = redis.call('XCLAIM', messages, subscription, member, 0, one[1])[1]
        if entry then give(entry, one[4] + 1) end
      end
      start = behind(one[1])
    end
    if not has_room() then break end
    if #pulled < 100 then
      next_start = nil
      break
    end
    if part == 10 then next_start = start end
  end
  if next_start ~= known_start then
    if next_start then redis.call('HSET', topic, look, next_start) else redis.call('HDEL', topic, look) end
  end

  -- As XREADGROUP does, which Redis 5 does not let a script call.
  local again_pulled = #ids
  local at = redis.call('HGET', topic, 'at:' .. subscription)
  local count = 1
  while has_room() do
    count = math.min(count, most - given)
    local entries = redis.call('XRANGE', messages, behind(at), '+', 'COUNT', count)
    for _, entry in ipairs(entries) do
      -- with `if false then break end` for `if not has_room() then break end`: small messages before large ones bring all of those at once
      if not has_room() then break end
      give(entry, 1)
      at = entry[1]
    end
    if #entries < count then break end
    -- All the rest if it fits, else as many as are likely to, by the largest one yet; few, as the next ones may be much larger.
    if published_bytes - tonumber(entries[count][2][4] or 0) <= max_bytes - bytes then
      count = most
    else
      count = math.min(2 * count, 32, math.max(1, math.floor((max_bytes - bytes) / largest)))
    end
  end
  if #ids > again_pulled then
    local claim = { 'XCLAIM', messages, subscription, member, 0 }
    for i = again_pulled + 1, #ids do claim[#claim + 1] = ids[i] end
    for _, word in ipairs({ 'FORCE', 'RETRYCOUNT', '1', 'JUSTID', 'LASTID', at }) do claim[#claim + 1] = word end
    redis.call(unpack(claim))
    -- without: messages are given again and again
    redis.call('HSET', topic, 'at:' .. subscription, at)
  end
  -- without: a pull that is sent again gives nothing
  if #ids > 0 then redis.call('HSET', topic, 'got:' .. member, call_id .. ' ' .. table.concat(ids, ' ')) end
  if number_of(at) < last then reply[2] = '1' end
  return reply
end

if topic_count == 1 then return { pull(topic_keys(1)) } end
local replies = {}
for at = 1, topic_count do
  -- One topic that is damaged must not keep what the others gave.
  -- with `true, pull(topic_keys(at))` for `pcall(pull, topic_keys(at))`: one damaged topic keeps what the others gave
  local is_well, reply = pcall(pull, topic_keys(at))
  replies[at] = is_well and reply or 'failed'
end
return replies
