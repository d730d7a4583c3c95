-- Where a job is, its level and its key. A job that is in none of the three sets with members is in a ready list. The level
-- of an unreadable record is looked for, and nil when its job is ready.
local function state_of(id, record)
  local level, _, key, unreadable = routing(record)
  if redis.call('ZSCORE', delayed, delayed_member(id, level)) then return 'delayed', level, key end
  if redis.call('HEXISTS', leases, id) == 1 then return 'reserved', level, key end
  if redis.call('ZSCORE', failed, id) then return 'failed', level, key end
  if not unreadable then return 'ready', level, key end
  for other = 0, 9 do
    level = string.format('%d', other)
    if redis.call('ZSCORE', delayed, delayed_member(id, level)) then return 'delayed', level, key end
  end
  return 'ready', nil, key
end

-- Takes a job out of the state it is in. Its entry in a ready list stays behind and is counted in `stale`, to be skipped
-- when it comes up: finding it would cost a walk through the list. Only an unreadable record, whose list is not known, is
-- worth that walk: its entry would run a later job of this id twice, and counted for the wrong list, hide it.
local function leave_state(id, level, state)
  if state == 'delayed' then
    redis.call('ZREM', delayed, delayed_member(id, level))
  elseif state == 'reserved' then
    redis.call('ZREM', reserved, id)
    redis.call('HDEL', leases, id)
    if names then redis.call('ZREM', places, id) end
  elseif state == 'failed' then
    redis.call('ZREM', failed, id)
  elseif names and redis.call('ZREM', parked, id) == 1 then
    return -- it has no entry
  elseif level then
    redis.call('HINCRBY', stale, level .. ':' .. id, 1)
    redis.call('HINCRBY', meta, 'stale_entries', 1)
  else
    for used in string.gmatch(passed_levels, '%d') do
      if redis.call('HEXISTS', stale, used .. ':' .. id) == 0 then redis.call('LREM', ready(used), -1, id) end
    end
  end
end

-- Removes a job for good; gives the state that it was in and its record, nil if there is no such job.
local function remove(id)
  local record = redis.call('HGET', jobs, id)
  if not record then return nil end
  local state, level, key = state_of(id, record)
  -- The reads that fail on a foreign type come before the first write.
  redis.call('HLEN', returned)
  redis.call('HLEN', keys)
  redis.call('ZCARD', reserved)
  redis.call('HLEN', stale)
  if names then
    redis.call('ZCARD', parked)
    redis.call('ZCARD', places)
  end
  redis.call('HDEL', jobs, id)
  redis.call('HDEL', returned, id)
  leave_state(id, level, state)
  if key and redis.call('HGET', keys, key) == id then redis.call('HDEL', keys, key) end
  return state, record
end
