-- Takes back leases that are over, without reserving any.
-- Moves:   reserved -> ready | failed.
-- Replies: how many were taken back; or `format <n>`, `levels <list>`. The same moment twice moves nothing twice.
-- Cost:    O(log n) a job, at most `cap`.
--- include: clock, meta, routing, wake, came_back, failed_set, reclaim_expired
local refused = refusal()
if refused then return refused end
redis.call('HLEN', leases)
read_clock()
local reclaimed = reclaim_expired(cap)
if reclaimed > 0 then wake_one() end
return integer(reclaimed)
