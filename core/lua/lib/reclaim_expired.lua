-- Takes back leases that are over, at most `cap`. A lease that ends counts as a failure of the job, or a job that kills
-- its worker would kill one after the other. Goes to the head of its ready list: it is older than what waits there.
local LEASE_OVER = 'lease ended: the worker died, hung or lost the server'

local function reclaim_expired(cap)
  local expired = redis.call('ZRANGEBYSCORE', reserved, '-inf', now, 'LIMIT', 0, cap)
  if #expired == 0 then return 0 end
  redis.call('ZREM', reserved, unpack(expired))
  redis.call('HDEL', leases, unpack(expired))
  local gave_up = 0
  for i = #expired, 1, -1 do
    local id = expired[i]
    local record = redis.call('HGET', jobs, id)
    if record then
      local level, max_retries, key = routing(record)
      note_return(id, 1, LEASE_OVER)
      if came_back(id) > max_retries then
        enter_failed(id, key)
        gave_up = gave_up + 1
      else
        redis.call('LPUSH', ready(level), id)
      end
    end
  end
  redis.pcall('HINCRBY', stats, 'reclaimed', #expired)
  if gave_up > 0 then
    redis.pcall('HINCRBY', stats, 'failed', gave_up)
    trim_failed()
  end
  return #expired
end
