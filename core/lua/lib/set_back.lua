-- A clock that was set back would let leases last as much longer. The last token tells, as tokens follow the clock: leases end
-- as much earlier then, once, and before another end is written. `last_token`: what `meta` has.
local ahead = tonumber(last_token or 0) - now_us
if ahead > 0 then
  local noted = tonumber(redis.call('HGET', meta, 'set_back') or 0)
  if ahead > noted + 1000000 then
    redis.call('ZCARD', reserved)
    --- include: room_first
    redis.call('HSET', meta, 'set_back', string.format('%.0f', ahead))
    local by = math.floor((ahead - noted) / 1000)
    for first = 0, 9000, 1000 do
      local ends = redis.call('ZRANGE', reserved, first, first + 999, 'WITHSCORES')
      local earlier_ends = {}
      for at = 1, #ends, 2 do
        earlier_ends[at], earlier_ends[at + 1] = string.format('%.0f', ends[at + 1] - by), ends[at]
      end
      if #ends > 0 then redis.call('ZADD', reserved, unpack(earlier_ends)) end
    end
  elseif noted > 0 and ahead <= 1000000 then
    redis.call('HDEL', meta, 'set_back')
  end
end
