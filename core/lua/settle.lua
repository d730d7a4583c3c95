-- Settles outcomes without asking for more jobs.
-- Moves:   reserved -> gone (ack) | delayed | ready | failed, only for leases whose token is still the granted one.
-- Replies: one character an outcome: `1` settled, `0` lease lost; or `superseded`, `format <n>`, `levels <list>`.
-- Cost:    O(log n) an outcome, at most 1,000 a call.
--- include: clock, once, meta, routing, wake, came_back, failed_set, settle_outcomes
local earlier = answer_of_earlier_send()
if earlier then return earlier end
local refused = refusal()
if refused then return refused end

local flags = {}
settle_others(settle_acks(first_item, flags), flags)
flags = table.concat(flags)
if not string.find(flags, '1', 1, true) then return flags end
return answer(flags)
