-- Wakes one waiting worker. The list holds at most two elements (one for what is ready, one for a new earliest due time), so
-- a burst of pushes wakes two at the most; who takes a batch wakes the next if it left jobs behind. A wake-up is a hint:
-- it must not fail the verb that gives it.
local waking = redis.pcall('LLEN', wake)
if type(waking) == 'number' and waking < 2 then redis.pcall('LPUSH', wake, '1') end
