-- Gives a member messages: those that it, or another one of its subscription, has pulled so long ago without an ack that they are pulled
-- anew, then those that nobody has pulled.
-- Moves:   nothing.
-- Replies: {server time, how many calls have published, `1` if there is more, id, how often it was pulled, data, ...}; `stranger`;
--          `cut <ms> <first> <last> <subscription>`; or `format <n>`.
-- Cost:    O(log n) a message, `most` and about `max_bytes` of them, and up to 1,000 that others have pulled.
--- include: clock, topic_state, topic_member
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
local start = '-'
for _ = 1, 10 do
  local pulled = redis.call('XPENDING', messages, subscription, start, '+', 100)
  for _, one in ipairs(pulled) do
    if one[3] >= lease_of(one[2]) and #ids < most and (bytes == 0 or bytes < max_bytes) then
      local entry = redis.call('XCLAIM', messages, subscription, member, 0, one[1])[1]
      if entry then give(entry, one[4] + 1) end
    end
    start = string.format('%s-%.0f', string.match(one[1], '^%d+'), number_of(one[1]) + 1)
  end
  if #pulled < 100 or #ids >= most then break end
end

local read
while #ids < most and (bytes == 0 or bytes < max_bytes) do
  -- As many as are likely to fit, by the largest one yet.
  local count = bytes == 0 and 1 or math.max(1, math.min(most - #ids, math.floor((max_bytes - bytes) / largest)))
  local batch = redis.call('XREADGROUP', 'GROUP', subscription, member, 'COUNT', count, 'STREAMS', messages, '>')
  local entries = batch and batch[1] and batch[1][2] or {}
  for _, entry in ipairs(entries) do
    give(entry, 1)
    read = number_of(entry[1])
  end
  if #entries < count then break end
end
if read then redis.call('HSET', topic, 'at:' .. subscription, string.format('%.0f', read)) end
if #ids > 0 then redis.call('HSET', topic, 'got:' .. member, call_id .. ' ' .. table.concat(ids, ' ')) end
if (read or tonumber(redis.call('HGET', topic, 'at:' .. subscription))) < last then reply[3] = '1' end
return reply
