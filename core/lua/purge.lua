-- Removes the first jobs of one state, at most `cap`: by due time, priority, end of the lease, or time of the failure, and no job that
-- failed after `latest`. Called again until nothing is left. Who runs one loses its lease.
-- Moves:   delayed | ready | reserved | failed -> gone.
-- Replies: `<removed> <entries looked at>`, and a line with the id of each removed job for whose result somebody may wait;
--          or `superseded`, `forgotten`, `format <n>`, `levels <list>`.
-- Cost:    O(log n) a job, at most `cap`, or 4 MiB of records.
--- include: call/once
-- without: a purge sent again removes the jobs that came since
if earlier then return earlier end
--- include: call/meta
-- without: an old client writes into a queue of a newer format
if refused then return refused end
--- include: job/routing, job/stale, job/keeps_result, job/fitting
--- include: purge/head_of_state
if state == 'reserved' then
  -- without: a foreign type under `leases` purges by half
  redis.call('HLEN', leases)
  --- if limited
  -- without: a foreign type under `places` purges by half
  if limits then redis.call('ZCARD', places) end
  --- end
end

--- if limited
--- include: history/events
--- end
local awaited = {}
local function forget(ids)
  local records = redis.call('HMGET', jobs, unpack(ids))
  for i, record in ipairs(records) do
    if record then
      local _, _, key = routing(record)
      -- without `and redis.call('HGET', keys, key) == ids[i]`: purging failed jobs frees a key that a live job holds
      if key and redis.call('HGET', keys, key) == ids[i] then redis.call('HDEL', keys, key) end
      -- without: who waits for a purged job hears of it a second later
      if keeps_result(record) then awaited[#awaited + 1] = '\n' .. ids[i] end
      --- if limited
      happened('X', ids[i], 1, state)
      --- end
    end
  end
  if state == 'reserved' then
    -- without: the worker of a purged job keeps its lease
    redis.call('HDEL', leases, unpack(ids))
    --- if limited
    -- without: a purged job keeps its place for ever
    if limits then redis.call('ZREM', places, unpack(ids)) end
    --- end
  end
  redis.call('HDEL', returned, unpack(ids))
  local removed = redis.call('HDEL', jobs, unpack(ids))
  if removed > 0 then redis.pcall('HINCRBY', stats, 'purged', removed) end
  return removed
end

local set = state == 'delayed' and delayed or state == 'reserved' and reserved or failed
--- include: purge/out_of_state
--- if limited
if state == 'reserved' and removed > 0 then
  -- without: the places of purged jobs stay empty for a second
  --- include: wake/one, limits/place_freed
end
--- end
local reply = string.format('%.0f %.0f', removed, seen) .. table.concat(awaited)
if seen == 0 then
  --- include: call/allow_growing
end
--- if limited
if events then
  --- include: call/clock, history/keep
end
--- end
-- with `return seen > 0 and answer(reply) or reply`: a late copy of a purge removes the jobs that came since
return answer(reply)
