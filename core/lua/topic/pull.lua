-- Gives a member messages of topics: of each those that it, or another one of its subscription, has pulled so long ago without an ack
-- that they are pulled anew, then those that nobody has pulled. The first topics are served first: who calls changes the order.
-- Moves:   nothing.
-- Replies: of each topic {how many calls have published, `1` if there is more, tag of the subscription, id, how often it was pulled,
--          data, ...}; `stranger`; `cut <ms> <first> <last> <subscription>`; `format <n>`; or `failed`, if it is one of several and the server refuses a command.
-- Cost:    O(topics + log n a message), `most` and about `max_bytes` of them, and up to 1,000 in a topic that others have pulled.
--- include: call/clock
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
  --- include: topic/state, topic/position, topic/lost, topic/member
  -- A server without memory lets readers finish: its first write must not grow.
  -- without: a server without memory does not let members read
  redis.call('HDEL', topic, '')
  redis.call('HSET', topic, 'seen:' .. member, now_text, 'lease:' .. member, lease_ms)
  local at, ours, others, tag, calls = position(subscription)
  local reply = { calls or '0', '0', tag or '' }
  local ids, largest, known_others = {}, 1, others
  local function give(entry, pulled)
    local data, is_message = entry[2][2], is_ours(entry)
    -- with `#data` for `is_message and #data or size_of(entry)`: a pull reads many large entries of another program
    local size = is_message and #data or size_of(entry)
    given, bytes, largest = given + 1, bytes + size, math.max(largest, size)
    ids[#ids + 1] = entry[1]
    reply[#reply + 1] = entry[1]
    reply[#reply + 1] = pulled
    reply[#reply + 1] = data
    -- with `not is_message` for `not is_message and (not others or is_before(others, entry[1]))`: what one subscription pulls of another program lets the ack of another one take it for a message
    if not is_message and (not others or is_before(others, entry[1])) then others = entry[1] end
    return is_message
  end

  if is_repeated then
    --- include: topic/given_again
    return reply
  end
  --- include: topic/pulled_long_ago, topic/unread
  -- without: an ack takes the number of what another program has added for that of a message
  if others ~= known_others then redis.call('HSET', topic, 'has_others', others) end
  local got = call_id .. ' ' .. table.concat(ids, ' ')
  -- without `, 'got:' .. member, got`: a pull that is sent again gives nothing
  if #ids > 0 then redis.call('HSET', topic, 'pulled:' .. subscription, latest, 'got:' .. member, got) end
  -- without `not is_end and`: behind a message that another program has removed, there is always more
  -- without `or others and #entries_behind(at, 1) > 0`: what another program has added behind the messages waits for the next one
  if not is_end and (number_of(ours) < last or others and #entries_behind(at, 1) > 0) then reply[2] = '1' end
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
