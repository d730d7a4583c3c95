-- Where a job is. A job that is in none of the three sets with members is in a ready list.
local function state_of(id, level)
  if redis.call('ZSCORE', delayed, delayed_member(id, level)) then return 'delayed' end
  if redis.call('HEXISTS', leases, id) == 1 then return 'reserved' end
  if redis.call('ZSCORE', failed, id) then return 'failed' end
  return 'ready'
end

-- Takes a job out of the state it is in. Its entry in a ready list stays behind and is counted in `stale`, to be skipped
-- when it comes up: finding it would cost a walk through the list.
local function leave_state(id, level, state)
  if state == 'delayed' then
    redis.call('ZREM', delayed, delayed_member(id, level))
  elseif state == 'reserved' then
    redis.call('ZREM', reserved, id)
    redis.call('HDEL', leases, id)
  elseif state == 'failed' then
    redis.call('ZREM', failed, id)
  else
    redis.call('HINCRBY', stale, level .. ':' .. id, 1)
    redis.call('HINCRBY', meta, 'stale_entries', 1)
  end
end

-- Removes a job for good and says which state it was in; nil if there is no such job.
local function remove(id)
  local record = redis.call('HGET', jobs, id)
  if not record then return nil end
  local level, _, key = routing(record)
  local state = state_of(id, level)
  redis.call('HDEL', jobs, id)
  redis.call('HDEL', returned, id)
  leave_state(id, level, state)
  if key and redis.call('HGET', keys, key) == id then redis.call('HDEL', keys, key) end
  return state
end
