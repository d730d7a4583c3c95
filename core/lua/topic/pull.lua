-- Gives a member messages: those that it, or another one of its subscription, has pulled so long ago without an ack that they are pulled
-- anew, then those that nobody has pulled.
-- Moves:   nothing.
-- Replies: {server time, how many calls have published, `1` if there is more, id, how often it was pulled, data, ...}; `stranger`;
--          `cut <ms> <first> <last> <subscription>`; or `format <n>`.
-- Cost:    O(log n) a message, `most` and about `max_bytes` of them, and up to 1,000 that others have pulled.
--- include: clock, topic_state, topic_lost, topic_member
-- A server without memory lets readers finish: its first write must not grow.
redis.call('HDEL', topic, '')
redis.call('HSET', topic, 'seen:' .. member, now_text, 'lease:' .. member, lease_ms)
local reply = { now_text, redis.call('HGET', topic, 'calls') or '0', '0' }
local ids, bytes, largest = {}, 0, 1
local function give(entry, pulled)
  local data = entry[2][2]
  bytes, largest = bytes + #data, math.max(largest, #data)
  ids[#ids + 1] = entry[1]
  reply[#reply + 1] = entry[1]
  reply[#reply + 1] = pulled
  reply[#reply + 1] = data
end

-- The answer to the same call was lost.
local got = again == '1' and redis.call('HGET', topic, 'got:' .. member) or ''
if string.sub(got, 1, #call_id + 1) == call_id .. ' ' then
  for id in string.gmatch(string.sub(got, #call_id + 2), '%S+') do
    local entry = redis.call('XRANGE', messages, id, id)[1]
    if entry then give(entry, 1) end
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
  local pulled = redis.call('XPENDING', messages, subscription, start, '+', 100)
  for _, one in ipairs(pulled) do
    if one[3] >= lease_of(one[2]) and #ids < most and (bytes == 0 or bytes < max_bytes) then
      local entry = redis.call('XCLAIM', messages, subscription, member, 0, one[1])[1]
      if entry then give(entry, one[4] + 1) end
    end
    start = behind(one[1])
  end
  if #ids >= most or bytes >= max_bytes then break end
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
while #ids < most and (bytes == 0 or bytes < max_bytes) do
  -- As many as are likely to fit, by the largest one yet.
  local count = bytes == 0 and 1 or math.max(1, math.min(most - #ids, math.floor((max_bytes - bytes) / largest)))
  local entries = redis.call('XRANGE', messages, behind(at), '+', 'COUNT', count)
  for _, entry in ipairs(entries) do
    give(entry, 1)
    at = entry[1]
  end
  if #entries < count then break end
end
if #ids > again_pulled then
  local claim = { 'XCLAIM', messages, subscription, member, 0 }
  for i = again_pulled + 1, #ids do claim[#claim + 1] = ids[i] end
  for _, word in ipairs({ 'FORCE', 'RETRYCOUNT', '1', 'JUSTID', 'LASTID', at }) do claim[#claim + 1] = word end
  redis.call(unpack(claim))
  redis.call('HSET', topic, 'at:' .. subscription, at)
end
if #ids > 0 then redis.call('HSET', topic, 'got:' .. member, call_id .. ' ' .. table.concat(ids, ' ')) end
if number_of(at) < last then reply[3] = '1' end
return reply
