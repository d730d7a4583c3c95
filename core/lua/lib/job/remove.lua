-- Takes a job out of whatever state it is in.
-- Needs: `routing`, `delayed_member`, what `call/meta` gives. Gives: `remove`, `state_of`.
--- include: job/state_of, job/leave_waiting
local function leave_state(id, level, state, entered)
  if state == 'reserved' then
    redis.call('ZREM', reserved, id)
    redis.call('HDEL', leases, id)
    --- if limited
    -- without: a cancelled job keeps its place for ever
    if limits then redis.call('ZREM', places, id) end
    --- end
  elseif state == 'failed' then
    redis.call('ZREM', failed, id)
  else
    leave_waiting(id, level, state, entered)
  end
end

-- Removes a job for good; gives the state that it was in and its record, nil if there is no such job. `entered`: as in
-- `job/leave_waiting`. `allowed`: only in one of these states; else it gives nil, the record, and the state that it is in.
local function remove(id, entered, allowed)
  local record = redis.call('HGET', jobs, id)
  -- without: cancelling what is not there stops the script
  if not record then return nil end
  local state, level, key = state_of(id, record)
  -- without: a job is cancelled in a state in which it was not to be
  if allowed and not string.find(allowed, state, 1, true) then return nil, record, state end
  -- The reads that fail on a foreign type come before the first write.
  -- without: a foreign type under `returned` cancels a job by half
  redis.call('HLEN', returned)
  -- without: a foreign type under `keys` cancels a job by half
  redis.call('HLEN', keys)
  -- without: a foreign type under `reserved` cancels a job by half
  redis.call('ZCARD', reserved)
  -- without: a foreign type under a ready list cancels a job by half
  if state == 'ready' and level then redis.call('LLEN', ready(level)) end
  -- without: a foreign type under `stale` cancels a job by half
  redis.call('HLEN', stale)
  --- if limited
  -- without 4 lines: a foreign type under `parked` cancels a job by half
  if limits then
    redis.call('ZCARD', parked)
    redis.call('ZCARD', places)
  end
  --- end
  redis.call('HDEL', jobs, id)
  -- without: notes of jobs that are gone stay for ever
  redis.call('HDEL', returned, id)
  leave_state(id, level, state, entered)
  -- without `and redis.call('HGET', keys, key) == id`: cancelling a failed job frees a key that another job holds
  if key and redis.call('HGET', keys, key) == id then redis.call('HDEL', keys, key) end
  return state, record
end
