-- Jobs of a name that run when it gets its first limit count as well: as many as one call may read.
-- Needs: `live`, `is_new`, what `call/meta` gives. Gives: `limits` as they are now.

-- with `do`: limits that are said again read a thousand records
if is_new then
  local limited
  limits = live[1]
  --- include: limits/limited, job/routing
  local bytes = 0
  for _, id in ipairs(redis.call('ZRANGE', reserved, 0, 999)) do
    bytes = bytes + redis.call('HSTRLEN', jobs, id)
    if bytes > 4194304 then break end
    local record = redis.call('HGET', jobs, id)
    local _, _, _, _, name = routing(record or '{')
    local limit = name and limited.by_name[name]
    -- without: a new limit lets as many run again as run already
    if limit and not limit.is_gone then redis.call('ZADD', places, limit.number, id) end
  end
end
