-- A foreign type under one of our keys stops a reserve before the first write, or jobs would be popped and leased to nobody.
-- Needs: what `call/meta` gives. Gives: `live`, how many jobs there are; `some_stale`: some entries no longer count; `some_came_back`: jobs
-- that were handed out before are there.

-- with `local live = 1`: a foreign type under `jobs` fails a reserve by half
local live = redis.call('HLEN', jobs)
-- without: a foreign type under `delayed` fails a reserve by half
redis.call('ZCARD', delayed)
-- without: a foreign type under `leases` loses the jobs that were popped
redis.call('HLEN', leases)
-- with `local some_came_back = false`: a foreign type under `returned` fails a reserve by half
local some_came_back = redis.call('HLEN', returned) > 0
-- with `local some_stale = false`: a job runs before its new due time, or twice
local some_stale = tonumber(noted_stale or 0) > 0
if some_stale then redis.call('HLEN', stale) end
--- if limited
-- without 4 lines: a foreign type under `places` leases jobs to nobody
if limits then
  redis.call('ZCARD', parked)
  redis.call('ZCARD', places)
end
--- end
if #levels > 1 or #ARGV >= first_item then
  -- without `redis.call('LLEN', ready(level))`: a foreign type under a list loses the jobs that were popped
  for level in string.gmatch(levels, '%d') do redis.call('LLEN', ready(level)) end
end
-- Reclaiming looks at it too, but only behind the outcomes.
-- without: a foreign type under `failed` fails a reserve behind its acks
if #ARGV >= first_item then redis.call('ZCARD', failed) end
