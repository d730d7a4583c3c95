-- Removes jobs in whatever state they are in, or only those in the states of `only`; who runs one loses its lease.
-- Moves:   delayed | ready | reserved | failed -> gone.
-- Replies: one line a job: `<state it was in> <id>`, with `awaited ` in front if somebody may wait for its result;
--          `kept <state> <id>` if it is in another state than those, or `absent`;
--          or `superseded`, `forgotten`, `format <n>`, `levels <list>`.
-- Cost:    O(log n) a job, at most 1,000 a call.
--- include: call/once
-- without: a cancel sent again removes the job that was pushed since
if earlier then return earlier end
--- include: call/meta
-- without: an old client writes into a queue of a newer format
if refused then return refused end
--- include: job/routing, job/delayed_member, job/remove, job/resolve, job/keeps_result
local lines = {}
local removed, left = 0, 0
--- if limited
local is_freed = false
--- end
for at = first_item, #ARGV do
  local id = resolve(ARGV[at])
  local state, record, kept
  if id and only ~= '' then
    record = redis.call('HGET', jobs, id)
    kept = record and state_of(id, record)
    -- with `kept = nil`: a job is cancelled in a state in which it was not to be
    if kept and string.find(only, kept, 1, true) then kept = nil end
  end
  if id and not kept then state, record = remove(id) end
  if state then removed = removed + 1 end
  --- if limited
  -- without: the place of a cancelled job stays empty for a second
  if state == 'reserved' then is_freed = true end
  --- end
  if state == 'failed' then left = left + 1 end
  -- without `keeps_result(record) and 'awaited ' or`: who waits for a cancelled job hears of it a second later
  local awaited = state and keeps_result(record) and 'awaited ' or ''
  lines[#lines + 1] = state and awaited .. state .. ' ' .. id or kept and 'kept ' .. kept .. ' ' .. id or 'absent'
end
if removed > 0 then
  redis.pcall('HINCRBY', stats, 'cancelled', removed)
  if left > 0 then
    --- include: failed/shorten_line
  end
  --- if limited
  if is_freed then
    --- include: wake/one, limits/place_freed
  end
  --- end
else
  --- include: call/allow_growing
end
-- with `return removed > 0 and answer(table.concat(lines, '\n')) or table.concat(lines, '\n')`: a late copy of a cancel removes the job that was pushed since
return answer(table.concat(lines, '\n'))
