-- Settles outcomes without asking for more jobs.
-- Moves:   reserved -> gone (ack) | delayed | ready | failed, only for leases whose token is still the granted one.
-- Replies: one character an outcome: `1` settled, `0` lease lost, `2` settled without what a full server
--          does not keep (a result, a larger record); or `superseded`, `forgotten`, `format <n>`, `levels <list>`.
-- Cost:    O(log n) an outcome, at most 1,000 a call.
--- include: call/once
-- without: the answer to an ack sent again says that the lease was lost
if earlier then return earlier end
--- include: call/meta
-- without: outcomes are written into levels and formats that the caller does not know
if refused then return refused end
--- if limited
--- include: history/events
--- end
local flags, next_item, is_full
--- include: settle/acks
if next_item <= #ARGV then
  --- include: call/clock, wake/one, back/coming_back, settle/others
end
flags = table.concat(flags)
if not string.find(flags, '[12]') then
  --- include: call/allow_growing
--- if limited
else
  -- without: a place that is given back stays empty for a second
  --- include: wake/one, limits/place_freed
--- end
end
--- if limited
if events then
  --- include: call/clock, history/keep
end
--- end
return answer(flags)
