-- Removes all that a queue has, if that are `expected` jobs and no schedule; but not which batches of a bridge are in, or have left.
-- Moves:   any state -> gone.
-- Replies: `deleted`, or `<jobs> <schedules>` if it has others; or `superseded`, `forgotten`, `format <n>`, `levels <list>`.
-- Cost:    O(1): the server frees the keys beside its other work.
--- include: call/once
-- without: a copy that comes late removes what was pushed since
if earlier then return earlier end
--- include: call/meta
-- without: an old client writes into a queue of a newer format
if refused then return refused end
local there, planned = redis.call('HLEN', jobs) + redis.call('LLEN', departing) / 4, redis.call('HLEN', schedules)
-- without `there ~= expected or`: jobs that nobody has counted are lost with their queue
-- without `or planned > 0`: schedules are lost with their queue
if there ~= expected or planned > 0 then
  -- without: a server without memory does not say how much there is
  --- include: call/allow_growing
  return answer(string.format('%.0f %.0f', there, planned))
end
-- `adopted` stays: jobs that came here by a bridge may be in flight yet, and would come once more. So does `departed`: a bridge that was
-- frozen would take out what is pushed next.
local all = { jobs, delayed, reserved, leases, failed, returned, keys, stale, wake, meta, stats, rates, workers, worker_infos,
  unheard, departing, schedules, schedule_state, schedule_due, schedule_fires }
for level in string.gmatch(levels, '%d') do all[#all + 1] = ready(level) end
--- if limited
all[#all + 1] = parked
all[#all + 1] = places
all[#all + 1] = history
--- end
-- By one command: a server that dies must not keep the half of it (`docs/servers.md`).
redis.call('UNLINK', unpack(all))
return answer('deleted')
