-- A clock that was set back would let leases last as much longer. The last token shows it, as tokens follow the clock: leases end
-- as much earlier then, once, and before another end is written. `last_token`: what `meta` has. There `set_back` says how many µs
-- the clock was behind that token when somebody looked, to the second, so that a further step back is seen; `set_back_token` is the
-- token of then. A call does 10,000 leases; where there are more, `set_back_rest` says `<ms earlier>;<first end that is left>`, and
-- the reply asks for another call (`again`) before anything else happens: what is ahead of that end is done, what is not is not.
-- Needs: what `call/clock` gives, `last_token`.
local behind = tonumber(last_token or 0) - now_us
if behind > 0 then
  local noted_back, noted_token, noted_rest =
    unpack(redis.call('HMGET', meta, 'set_back', 'set_back_token', 'set_back_rest'))
  local seen, token_then = tonumber(noted_back or 0), tonumber(noted_token or last_token)
  local by, first = string.match(noted_rest or '', '^(%d+);(%d+)$')
  -- Tokens that went on by more than so much followed the clock meanwhile: what was noted is of another time.
  -- without `seen, by = 0, nil`: a clock that is set back long after the first time is not noticed
  if last_token - token_then > 1000000 then seen, by = 0, nil end
  -- with `if false then`: leases last longer when the clock is set back
  -- with `1000000` for `seen + 1000000`: leases end too early after the clock was set back
  if not by and behind > seen + 1000000 then
    by, first, seen = math.floor((behind - seen) / 1000), '-inf', behind
  end
  if by then
    redis.call('ZCARD', reserved)
    --- include: call/allow_growing
    local is_done = false
    for _ = 1, 10 do
      local ends = redis.call('ZRANGEBYSCORE', reserved, first, '+inf', 'WITHSCORES', 'LIMIT', '0', '1000')
      is_done = #ends < 2000
      local earlier_ends = {}
      for at = 1, #ends, 2 do
        earlier_ends[at], earlier_ends[at + 1] = string.format('%.0f', ends[at + 1] - by), ends[at]
      end
      if #ends > 0 then
        first = ends[#ends]
        redis.call('ZADD', reserved, unpack(earlier_ends))
      end
      if is_done then break end
    end
    redis.call('HSET', meta, 'set_back', string.format('%.0f', seen), 'set_back_token', last_token)
    if not is_done then
      redis.call('HSET', meta, 'set_back_rest', string.format('%.0f;', by) .. first)
      return 'again'
    end
    redis.call('HDEL', meta, 'set_back_rest')
  elseif behind <= 1000000 then
    -- without: a clock that is set back a second time is not noticed
    if noted_back then redis.call('HDEL', meta, 'set_back', 'set_back_token', 'set_back_rest') end
  -- without `behind < seen - 1000000 or`: a second, smaller step back of the clock is not noticed
  elseif behind < seen - 1000000 or last_token - token_then > 500000 then
    --- include: call/allow_growing
    redis.call('HSET', meta, 'set_back', string.format('%.0f', behind), 'set_back_token', last_token)
  end
end
