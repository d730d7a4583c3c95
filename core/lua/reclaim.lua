-- Takes back leases that are over, without reserving any.
-- Moves:   reserved -> ready | failed.
-- Replies: `<how many were taken back> <1 if it stopped before its cap, else 0>`, and a line with the id of each job that failed and
--          for whose result somebody may wait; or `format <n>`, `levels <list>`, `again`. The same moment twice moves nothing twice.
-- Cost:    O(log n) a job, at most `reclaim_cap`, or 4 MiB of records.
--- include: call/meta
-- without: jobs are taken back into levels and formats that the caller does not know
if refused then return refused end
--- include: call/clock
do
  --- include: reserve/set_back
end
--- if limited
--- include: history/events
--- end
local reply, ended = {}
--- include: reserve/find_ended
if #ended > 0 then
  --- include: back/coming_back, back/reclaim_ended
  --- include: wake/one
  wake_one()
end
--- if limited
--- include: history/keep
--- end
local awaited = reply[2] and '\n' .. table.concat(reply[2], '\n') or ''
return string.format('%.0f ', #ended) .. (reply.is_cut and '1' or '0') .. awaited
