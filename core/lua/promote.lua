-- Promotes due jobs without reserving any.
-- Moves:   delayed -> ready.
-- Replies: how many were moved; or `format <n>`, `levels <list>`. The same moment twice moves nothing twice.
-- Cost:    O(log n) a job, at most `promote_cap`.
--- include: call/meta
-- without: jobs are promoted into levels and formats that the caller does not know
if refused then return refused end
--- include: call/clock, history/events, reserve/promote_due
if #promoted > 0 then
  --- include: wake/one
  wake_one()
end
--- include: history/keep
return #promoted
