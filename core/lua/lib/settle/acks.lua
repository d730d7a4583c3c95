-- Settles acks: first the leases are compared with the tokens, then all moves are made. `flags` gets one character an
-- outcome: `1` settled, `0` the lease was lost and nothing was touched, `2` settled, but a server without memory did not keep
-- what would have grown it.
-- Needs: `flags`, `next_item`, `is_full`, what `call/meta` gives, except in the plain text `took` and what `history/events` gives.
-- Gives: `flags`; `next_item` is the first behind the acks, `is_full` says that the server has no memory.
local held, keys_at = {}, nil
flags, next_item, is_full = {}, first_item, false

-- Acks: ack_count ids, ack_count tokens, and where `keyed` as many keys.
if ack_count > 0 then
  local last = first_item + ack_count - 1
  local tokens = redis.call('HMGET', leases, unpack(ARGV, first_item, last))
  for i = 1, ack_count do
    -- without `and tokens[i] == ARGV[last + i]`: a late ack removes a job that another runs
    if tokens[i] and tokens[i] == ARGV[last + i] then
      held[#held + 1] = ARGV[first_item + i - 1]
      flags[i] = '1'
    else
      flags[i] = '0'
    end
  end
  if #held > 0 then
    -- What may hold a foreign type comes first, so that nothing is done by half.
    -- without: a foreign type under `jobs` acks by half
    redis.call('HLEN', jobs)
    -- without: a foreign type under `keys` acks by half
    if keyed == 1 then redis.call('HLEN', keys) end
    --- if limited
    -- without: a foreign type under `places` acks by half
    if limits then redis.call('ZCARD', places) end
    --- end
  end
  keys_at = last + ack_count + 1
  next_item = keyed == 1 and keys_at + ack_count or keys_at
end
-- Results, and the records that failure hooks changed, may grow the server. One without memory settles all the same, without them:
-- else a queue whose jobs all leave results could never drain, and would hold up the acks of others in the same call.
local may_grow = result_count > 0
--- if full
for at = next_item + 3 * result_count + 6, #ARGV, 7 do may_grow = may_grow or ARGV[at] ~= '' end
--- end
if may_grow then
  redis.call('ZCARD', reserved)
  -- without: a foreign type under `returned` leaves a result of a job that is not done
  redis.call('HLEN', returned)
  -- It changes nothing, and is refused there.
  local tried = redis.pcall('ZADD', reserved, 'XX', '0', '')
  if type(tried) == 'table' then
    if not string.find(tried.err, 'OOM', 1, true) then return tried end
    -- without: results let a full server grow
    is_full = true
    --- include: call/allow_growing
  end
end
if result_count > 0 then
  --- include: settle/keep_results
end
if #held > 0 then
  if redis.call('EXISTS', returned) == 1 then redis.call('HDEL', returned, unpack(held)) end
  redis.call('ZREM', reserved, unpack(held))
  --- if limited
  -- without: an ack keeps its place for ever
  if limits then redis.call('ZREM', places, unpack(held)) end
  --- end
  -- An ack that is there twice in one call is answered twice and counted once.
  -- with `redis.call('HDEL', leases, unpack(held)) local acked = #held`: an ack that is there twice is counted twice
  local acked = redis.call('HDEL', leases, unpack(held))
  redis.call('HDEL', jobs, unpack(held))
  redis.pcall('HINCRBY', stats, 'acked', acked)
  --- if limited
  if events then
    local its = took
    -- Of those that were settled.
    if its ~= '' and #held < ack_count then
      local of_held, i = {}, 0
      for ms in string.gmatch(took, '[^,]+') do
        i = i + 1
        if i <= ack_count and flags[i] ~= '0' then of_held[#of_held + 1] = ms end
      end
      its = table.concat(of_held, ',')
    end
    local ids = held
    -- with `false` for `acked < #held`: the history has an ack twice that is there twice
    if acked < #held then
      local is_told, of_each = {}, {}
      for ms in string.gmatch(its, '[^,]+') do of_each[#of_each + 1] = ms end
      local its_ms = {}
      ids = {}
      for k, id in ipairs(held) do
        if not is_told[id] then ids[#ids + 1], its_ms[#its_ms + 1] = id, of_each[k] end
        is_told[id] = true
      end
      its = table.concat(its_ms, ',')
    end
    happened('A', table.concat(ids, '\n'), #ids, its)
  end
  --- end
  if keyed == 1 then
    for i = 1, ack_count do
      local id, key = ARGV[first_item + i - 1], ARGV[keys_at + i - 1]
      -- without `flags[i] ~= '0' and`: a late ack frees the key of a live job
      -- without `and redis.call('HGET', keys, key) == id`: an ack frees a key that another job holds
      if flags[i] ~= '0' and key ~= '' and redis.call('HGET', keys, key) == id then redis.call('HDEL', keys, key) end
    end
  end
end
