-- Promotes due jobs without reserving any.
-- Moves:   delayed -> ready.
-- Replies: how many were moved; or `format <n>`, `levels <list>`. The same moment twice moves nothing twice.
-- Cost:    O(log n) a job, at most `cap`.
--- include: clock, meta, routing, wake, promote_due
local refused = refusal()
if refused then return refused end
read_clock()
local promoted = promote_due(cap)
if promoted > 0 then wake_one() end
return integer(promoted)
