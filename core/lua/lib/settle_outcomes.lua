-- Settles what handlers did: first the leases are compared with the tokens, then all moves are made. The answer has one
-- character an outcome: `1` settled, `0` the lease was lost and nothing was touched.
local flags = {}
local next_item = first_item

-- A foreign type under one of our keys stops it here, before the first write: nothing is settled by half.
local some_returned = redis.call('HLEN', returned) > 0
redis.call('HLEN', jobs)
if keyed == 1 then redis.call('HLEN', keys) end
if first_item + (2 + keyed) * ack_count <= #ARGV then
  redis.call('ZCARD', delayed)
  redis.call('ZCARD', failed)
  redis.call('HLEN', keys)
  for level in string.gmatch(levels, '%d') do redis.call('LLEN', ready(level)) end
end

-- Acks: ack_count ids, ack_count tokens, and where `keyed` as many keys.
if ack_count > 0 then
  local last = first_item + ack_count - 1
  local tokens = redis.call('HMGET', leases, unpack(ARGV, first_item, last))
  local held = {}
  for i = 1, ack_count do
    -- The same job twice in one call is settled once: its lease is gone by then, but not yet in `tokens`.
    if tokens[i] and tokens[i] == ARGV[last + i] then
      held[#held + 1] = ARGV[first_item + i - 1]
      flags[i] = '1'
    else
      flags[i] = '0'
    end
  end
  if #held > 0 then
    redis.call('ZREM', reserved, unpack(held))
    redis.call('HDEL', leases, unpack(held))
    redis.call('HDEL', jobs, unpack(held))
    if some_returned then redis.call('HDEL', returned, unpack(held)) end
    redis.pcall('HINCRBY', stats, 'acked', #held)
  end
  next_item = last + ack_count + 1
  if keyed == 1 then
    for i = 1, ack_count do
      local id, key = ARGV[first_item + i - 1], ARGV[next_item + i - 1]
      if flags[i] == '1' and key ~= '' and redis.call('HGET', keys, key) == id then redis.call('HDEL', keys, key) end
    end
    next_item = next_item + ack_count
  end
end

-- The others: (verb, id, token, key, delay in ms, error, new record or '') each. retry: counts a failure, due again after the
-- delay; again: the same without counting; release: to the head of its ready list, or due after the delay, not counted;
-- failed: counts a failure and retries no more.
if next_item <= #ARGV then
  --- include: wake, routing, delayed_member, came_back, failed_set
  local entered_failed = 0
  for at = next_item, #ARGV, 7 do
    local verb, id, token, key = ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3]
    local delay, err, record = tonumber(ARGV[at + 4]), ARGV[at + 5], ARGV[at + 6]
    if redis.call('HGET', leases, id) ~= token then
      flags[#flags + 1] = '0'
    else
      flags[#flags + 1] = '1'
      local level = routing(redis.call('HGET', jobs, id) or '{')
      redis.call('ZREM', reserved, id)
      redis.call('HDEL', leases, id)
      if record ~= '' then redis.call('HSET', jobs, id, record) end
      note_return(id, (verb == 'retry' or verb == 'failed') and 1 or 0, err)
      if verb == 'failed' then
        enter_failed(id, key)
        entered_failed = entered_failed + 1
      elseif delay > 0 then
        redis.call('ZADD', delayed, now + delay, delayed_member(id, level))
        wake_for(now + delay)
      else
        redis.call(verb == 'release' and 'LPUSH' or 'RPUSH', ready(level), id)
        wake_one()
      end
      redis.pcall('HINCRBY', stats, verb == 'retry' and 'retried' or verb == 'failed' and 'failed' or 'released', 1)
    end
  end
  if entered_failed > 0 then trim_failed() end
end
flags = table.concat(flags)
