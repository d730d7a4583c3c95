-- A foreign type under one of our keys stops a reserve before the first write, or jobs would be popped and leased to nobody.
-- Needs: what `meta` gives. Gives: `live`, how many jobs there are; `some_stale`: some entries no longer count.
local live = redis.call('HLEN', jobs)
redis.call('ZCARD', delayed)
redis.call('HLEN', leases)
redis.call('HLEN', returned)
local some_stale = tonumber(noted_stale or 0) > 0
if some_stale then redis.call('HLEN', stale) end
--- if limited
if limits then
  redis.call('ZCARD', parked)
  redis.call('ZCARD', places)
end
--- end
if #levels > 1 or #ARGV >= first_item then
  for level in string.gmatch(levels, '%d') do redis.call('LLEN', ready(level)) end
end
-- Reclaiming looks at it too, but only behind the outcomes.
if #ARGV >= first_item then redis.call('ZCARD', failed) end
