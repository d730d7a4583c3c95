-- Takes back leases that are over, at most `reclaim_cap`. Goes to the head of its ready list: it is older than what waits there.
-- Adds to `reply`, where jobs failed for whose results somebody may wait, a list of none, one of their ids, and 0; and says
-- there whether it stopped before its cap.
-- Needs: `clock`, `coming_back`, `expired`.
--- include: ahead, lease_ended, keeps_result, fitting
-- The reads that fail on a foreign type come before the first write, so that no job is lost between two sets.
redis.call('HLEN', jobs)
-- The rest is there for the next call.
if noted_large then
  for k = #expired, count_fitting(expired, 4194304) + 1, -1 do
    expired[k], reply.is_cut = nil, true
  end
end
local tokens = redis.call('HMGET', leases, unpack(expired))
redis.call('ZCARD', failed)
redis.call('HLEN', returned)
redis.call('HLEN', keys)
for used in string.gmatch(passed_levels, '%d') do redis.call('LLEN', ready(used)) end
--- if limited
if limits then
  redis.call('ZCARD', parked)
  redis.call('ZCARD', places)
end
--- end
redis.call('ZREM', reserved, unpack(expired))
redis.call('HDEL', leases, unpack(expired))
local gave_up, awaited = 0, {}
for i = #expired, 1, -1 do
  local id = expired[i]
  --- if limited
  local number = limits and redis.call('ZSCORE', places, id)
  if number then redis.call('ZREM', places, id) end
  --- end
  local record = redis.call('HGET', jobs, id)
  if record then
    local level, max_retries, key = routing(record)
    if lease_ended(id, tokens[i], max_retries) then
      enter_failed(id, key)
      note_unheard(id)
      gave_up = gave_up + 1
      if keeps_result(record) then awaited[#awaited + 1] = id end
    else
      --- if limited
      to_head(id, level, number)
      --- else
      to_head(id, level)
      --- end
    end
  else
    redis.call('HDEL', returned, id)
  end
end
redis.pcall('HINCRBY', stats, 'reclaimed', #expired)
if gave_up > 0 then
  redis.pcall('HINCRBY', stats, 'failed', gave_up)
  trim_failed(gave_up)
  if #awaited > 0 then
    reply[#reply + 1] = {}
    reply[#reply + 1] = awaited
    reply[#reply + 1] = 0
  end
end
