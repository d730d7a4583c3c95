-- Settles acks: first the leases are compared with the tokens, then all moves are made. `flags` gets one character an
-- outcome: `1` settled, `0` the lease was lost and nothing was touched.
local flags, held = {}, {}
local next_item = first_item
local keys_at

-- Acks: ack_count ids, ack_count tokens, and where `keyed` as many keys.
if ack_count > 0 then
  local last = first_item + ack_count - 1
  local tokens = redis.call('HMGET', leases, unpack(ARGV, first_item, last))
  for i = 1, ack_count do
    if tokens[i] and tokens[i] == ARGV[last + i] then
      held[#held + 1] = ARGV[first_item + i - 1]
      flags[i] = '1'
    else
      flags[i] = '0'
    end
  end
  if #held > 0 then
    -- What may hold a foreign type comes first, so that nothing is done by half.
    redis.call('HLEN', jobs)
    if keyed == 1 then redis.call('HLEN', keys) end
    if names then redis.call('ZCARD', places) end
  end
  keys_at = last + ack_count + 1
  next_item = keyed == 1 and keys_at + ack_count or keys_at
end
-- Results come first, so that a server without memory refuses them, and with them this call, before anything has changed.
if result_count > 0 then
  redis.call('ZCARD', reserved)
  redis.call('HLEN', returned)
  --- include: keep_results
end
if #held > 0 then
  if redis.call('EXISTS', returned) == 1 then redis.call('HDEL', returned, unpack(held)) end
  redis.call('ZREM', reserved, unpack(held))
  if names then redis.call('ZREM', places, unpack(held)) end
  -- An ack that is there twice in one call is answered twice and counted once.
  local acked = redis.call('HDEL', leases, unpack(held))
  redis.call('HDEL', jobs, unpack(held))
  redis.pcall('HINCRBY', stats, 'acked', acked)
  if keyed == 1 then
    for i = 1, ack_count do
      local id, key = ARGV[first_item + i - 1], ARGV[keys_at + i - 1]
      if flags[i] == '1' and key ~= '' and redis.call('HGET', keys, key) == id then redis.call('HDEL', keys, key) end
    end
  end
end
