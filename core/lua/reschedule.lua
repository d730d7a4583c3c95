-- Gives a waiting job another due time, or only one that is in the state `only`.
-- Moves:   delayed -> delayed | ready; ready -> delayed.
-- Replies: `moved <id>`; `<state> <id>` of one that was not touched; `absent`; or `superseded`, `forgotten`, `format <n>`, `levels <list>`.
-- Cost:    O(log n).
--- include: call/once
-- without: a reschedule sent again moves the job that somebody else moved since
if earlier then return earlier end
--- include: call/meta
-- without: a job goes into levels and formats that the caller does not know
if refused then return refused end
--- include: call/clock, push/due, job/routing, job/delayed_member, wake/one, wake/at, job/state_of, job/leave_waiting, job/resolve
-- A foreign type under one of our keys stops it before the first write.
-- without `redis.call('LLEN', ready(used))`: a foreign type under a list loses the rescheduled job
for used in string.gmatch(levels, '%d') do redis.call('LLEN', ready(used)) end
--- if limited
if limits then redis.call('ZCARD', parked) end
--- end
local function not_touched(reply)
  --- include: call/allow_growing
  -- with `return reply`: a late copy moves the job that was pushed since
  return answer(reply)
end

--- if limited
--- include: history/events
--- end
local value, due = ARGV[first_item], ARGV[first_item + 1]
local id = resolve(value)
local record = id and redis.call('HGET', jobs, id)
-- without: rescheduling what is not there stops the script
if not record then return not_touched('absent') end
local state, level = state_of(id, record)
if not level then return not_touched('absent') end -- unreadable and ready: the next reserve puts it into `failed`
-- without: a job that runs is also delayed
if state == 'reserved' or state == 'failed' then return not_touched(state .. ' ' .. id) end
-- without: a job is rescheduled in a state in which it was not to be
if only ~= '' and state ~= only then return not_touched(state .. ' ' .. id) end

local at = due_of(due)
if at then
  -- without: a rescheduled job runs at once, too
  if state == 'ready' then leave_waiting(id, level, state) end
  redis.call('ZADD', delayed, at, delayed_member(id, level))
  wake_for(at)
elseif state == 'delayed' then
  leave_waiting(id, level, state)
  redis.call('RPUSH', ready(level), id)
  wake_one()
end
--- if limited
happened('M', id, 1, at and string.format('%.0f', at) or '')
--- include: history/keep
--- end
return answer('moved ' .. id)
