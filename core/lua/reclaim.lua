-- Takes back leases that are over, without reserving any.
-- Moves:   reserved -> ready | failed.
-- Replies: how many were taken back; or `format <n>`, `levels <list>`. The same moment twice moves nothing twice.
-- Cost:    O(log n) a job, at most `reclaim_cap`.
--- include: meta
if refused then return refused end
--- include: clock
do
  local last_token = known[5]
  --- include: set_back
end
--- include: reclaim_expired
if #expired > 0 then
  --- include: wake_one
end
return #expired
