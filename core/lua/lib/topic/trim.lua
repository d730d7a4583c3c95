-- Removes the oldest messages. How far is decided by who includes this: `topic/publish` by the bounds, `topic/ack` by what all have read.
-- Needs: `topic`, `messages`, `floors`, `last`, `length`, `first`, `first_ms`,
-- `ms_of`, `number_of`, `size_of`, `behind`, `position`, `read_until`. Gives: `trim`, `trim_read`; `first`, `first_ms` and `length` are those of now.

-- Up to this id; says whether nothing is left of that.
local function trim(gone)
  if type(redis.pcall('XTRIM', messages, 'MINID', behind(gone))) == 'number' then return true end
  -- Redis 5 and 6.0 remove by count alone, so what goes is counted, few at a time: they may be large.
  local going, bytes, from, is_all = 0, 0, '-', false
  while from and going < 1000 and bytes < 8388608 and not is_all do
    local entries = redis.call('XRANGE', messages, from, gone, 'COUNT', 10)
    for _, entry in ipairs(entries) do bytes = bytes + size_of(entry) end
    going, is_all = going + #entries, #entries < 10
    from = not is_all and behind(entries[10][1])
  end
  length = length - going
  redis.call('XTRIM', messages, 'MAXLEN', string.format('%.0f', length))
  return is_all or not from
end

local function lowest_floor()
  local name, lowest = unpack(redis.call('ZRANGE', floors, 0, 0, 'WITHSCORES'))
  return tonumber(lowest or nil), name
end

-- Removes what all subscriptions have read, a thousand in one call. Of one that has just acked, all is known. Gives the lowest floor.
local function trim_read(own_floor, own_read)
  local lowest, name = lowest_floor()
  if not lowest or lowest <= first then return lowest end
  -- with `own_read` for `lowest == own_floor and own_read`: what another subscription of the topic has not read is removed
  local gone = lowest == own_floor and own_read
  if not gone then
    local _, ours, others, _, _, found = position(name)
    -- without: what a look has found of one subscription while another one was behind it is looked for again, and lost again
    if found and number_of(found) + 1 == lowest then gone = found end
    if not gone and lowest ~= own_floor then
      -- Another program may have destroyed its group.
      local pulled = redis.pcall('XPENDING', messages, name)
      -- with `read_until(name, lowest, pulled, ours, others)` for `not pulled.err and read_until(name, lowest, pulled, ours, others)`: a subscription whose group is gone ends the calls of all others
      gone = not pulled.err and read_until(name, lowest, pulled, ours, others)
      if gone and number_of(gone) >= lowest then
        -- Its own ack has only begun this look.
        -- without: a look that an ack has begun, and a call of another subscription or a publish has ended, was for nothing
        redis.call('ZADD', floors, string.format('%.0f', number_of(gone) + 1), name)
        lowest = lowest_floor()
      end
    end
  end
  -- Others with the same floor, or a higher one, have read what lies before it, and no more.
  -- without `or number_of(gone) >= lowest`: what another subscription of the topic has not read is removed
  if not gone or number_of(gone) >= lowest then return lowest end
  -- with `false` for `length - (last - lowest + 1) > 1000`: an ack that frees a large topic keeps all queues of the server waiting
  if length - (last - lowest + 1) > 1000 then
    -- Whole blocks only, and no more than this.
    local going = redis.pcall('XTRIM', messages, 'MINID', '~', behind(gone), 'LIMIT', 1000)
    if type(going) == 'number' and going > 0 then return lowest end
  end
  if not trim(gone) then return lowest end
  first, first_ms = lowest, math.max(first_ms, ms_of(gone))
  -- without: each ack looks for what it may remove
  redis.call('HSET', topic, 'first', string.format('%.0f-%.0f', first_ms, first))
  return lowest
end
