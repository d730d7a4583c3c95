-- Wakes one waiting worker. The list holds at most two elements (one for what is ready, one for a new earliest due time), so
-- a burst of pushes wakes two at the most; who takes a batch wakes the next if it left jobs behind. A wake-up is a hint:
-- it must not fail the verb that gives it.
local function wake_one()
  local length = redis.pcall('LLEN', wake)
  if type(length) == 'number' and length < 2 then redis.call('LPUSH', wake, '1') end
end

-- Somebody must come back at `due`: needed unless a waiting worker has promised to come back by then (`timer`).
local function wake_for(due)
  local timer = tonumber(known[3] or 0)
  if timer <= now or due < timer then wake_one() end
end
