-- Messages that were pulled so long ago without an ack that they are pulled anew, in up to 1,000 that others have pulled.
-- Needs: `topic`, `messages`, `subscription`, `member`, `now`, `now_text`, `behind`, `has_room`, `give`. Gives: `latest`: when the
-- subscription pulled something, by the clock that was the furthest ahead; it has given its messages.

-- Each member has the lease of its last pull. Of one that has left, nothing is known, and nothing is waited for.
local leases = {}
local function lease_of(other)
  leases[other] = leases[other] or tonumber(redis.call('HGET', topic, 'lease:' .. other) or 0)
  return leases[other]
end
-- Where the last look ended, if it did not come to the end: what waits behind many long leases is found, too.
local look = 'look:' .. subscription
local known_start, noted_latest = unpack(redis.call('HMGET', topic, look, 'pulled:' .. subscription))
known_start = known_start or nil
local was_set_back = noted_latest and tonumber(noted_latest) > now
-- with `now_text` for `was_set_back and noted_latest or now_text`: what one pull has not seen after the clock was set back, no later pull gives
local latest = was_set_back and noted_latest or now_text
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
      if entry then
        give(entry, one[4] + 1)
      else
        -- Another program has removed it. Redis 7 knows that by itself.
        redis.call('XACK', messages, subscription, one[1])
      end
    elseif was_set_back and one[3] == 0 then
      -- Pulled at a time that is still to come: the server says 0 for it. Its lease begins now.
      -- without: what was pulled before the clock was set back is not pulled anew until the clock has caught up
      redis.call('XCLAIM', messages, subscription, one[2], 0, one[1], 'JUSTID')
    end
    start = behind(one[1])
  end
  if not has_room() then break end
  if #pulled < 100 or not start then
    next_start = nil
    break
  end
  if part == 10 then next_start = start end
end
if next_start ~= known_start then
  if next_start then redis.call('HSET', topic, look, next_start) else redis.call('HDEL', topic, look) end
end
