-- Messages that were pulled so long ago without an ack that they are pulled anew, in up to 1,000 that others have pulled.
-- Needs: `topic`, `messages`, `subscription`, `member`, `behind`, `has_room`, `give`. Gives: nothing; it has given its messages.

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
      if entry then
        give(entry, one[4] + 1)
      else
        -- Another program has removed it. Redis 7 knows that by itself.
        redis.call('XACK', messages, subscription, one[1])
      end
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
