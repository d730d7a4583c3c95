--- include: state_of
-- Takes a job out of the state it is in. Its entry in a ready list stays behind and is counted in `stale`, to be skipped
-- when it comes up: finding it would cost a walk through the list. Only an unreadable record, whose list is not known, is
-- worth that walk: its entry would run a later job of this id twice, and counted for the wrong list, hide it. `look_back`: who
-- replaces the same few jobs over and over would leave an entry each time; among the last hundred it is looked for.
local function leave_state(id, level, state, look_back)
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
    for _, last in ipairs(look_back and redis.call('LRANGE', ready(level), -100, -1) or {}) do
      if last == id then return redis.call('LREM', ready(level), -1, id) end
    end
    redis.call('HINCRBY', stale, level .. ':' .. id, 1)
    redis.call('HINCRBY', meta, 'stale_entries', 1)
  else
    for used in string.gmatch(passed_levels, '%d') do
      if redis.call('HEXISTS', stale, used .. ':' .. id) == 0 then redis.call('LREM', ready(used), -1, id) end
    end
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
  if names then
    redis.call('ZCARD', parked)
    redis.call('ZCARD', places)
  end
  redis.call('HDEL', jobs, id)
  redis.call('HDEL', returned, id)
  leave_state(id, level, state, look_back)
  if key and redis.call('HGET', keys, key) == id then redis.call('HDEL', keys, key) end
  return state, record
end
