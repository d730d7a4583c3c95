--- include: state_of, leave_waiting
-- Takes a job out of whatever state it is in.
local function leave_state(id, level, state, look_back)
  if state == 'reserved' then
    redis.call('ZREM', reserved, id)
    redis.call('HDEL', leases, id)
    --- if limited
    if limits then redis.call('ZREM', places, id) end
    --- end
  elseif state == 'failed' then
    redis.call('ZREM', failed, id)
  else
    leave_waiting(id, level, state, look_back)
  end
end

-- Removes a job for good; gives the state that it was in and its record, nil if there is no such job.
local function remove(id, look_back)
  local record = redis.call('HGET', jobs, id)
  if not record then return nil end
  local state, level, key = state_of(id, record)
  -- The reads that fail on a foreign type come before the first write.
  redis.call('HLEN', returned)
  redis.call('HLEN', keys)
  redis.call('ZCARD', reserved)
  redis.call('HLEN', stale)
  --- if limited
  if limits then
    redis.call('ZCARD', parked)
    redis.call('ZCARD', places)
  end
  --- end
  redis.call('HDEL', jobs, id)
  redis.call('HDEL', returned, id)
  leave_state(id, level, state, look_back)
  if key and redis.call('HGET', keys, key) == id then redis.call('HDEL', keys, key) end
  return state, record
end
