-- Removes jobs in whatever state they are in, or only those in the states of `only`; who runs one loses its lease.
-- Moves:   delayed | ready | reserved | failed -> gone.
-- Replies: one line a job: `<state it was in> <id>`, with `awaited ` in front if somebody may wait for its result;
--          `kept <state> <id>` if it is in another state than those, `absent`, and `later` for all that are behind 4 MiB of records;
--          or `superseded`, `forgotten`, `format <n>`, `levels <list>`.
-- Cost:    O(log n) a job, at most 1,000 a call, or 4 MiB of records.
--- include: call/once
-- without: a cancel sent again removes the job that was pushed since
if earlier then return earlier end
--- include: call/meta
-- without: an old client writes into a queue of a newer format
if refused then return refused end
--- include: job/routing, job/delayed_member, job/remove, job/resolve, job/keeps_result
--- if limited
--- include: history/events
--- end
local lines = {}
local removed, left, bytes = 0, 0, 0
local allowed = only ~= '' and only
--- if limited
local is_freed = false
--- end
for at = first_item, #ARGV do
  local id = resolve(ARGV[at])
  local state, record, kept
  if id then state, record, kept = remove(id, false, allowed) end
  if state then removed = removed + 1 end
  --- if limited
  if state then happened('C', id, 1, state) end
  -- without: the place of a cancelled job stays empty for a second
  if state == 'reserved' then is_freed = true end
  --- end
  if state == 'failed' then left = left + 1 end
  -- without `keeps_result(record) and 'awaited ' or`: who waits for a cancelled job hears of it a second later
  local awaited = state and keeps_result(record) and 'awaited ' or ''
  lines[#lines + 1] = state and awaited .. state .. ' ' .. id or kept and 'kept ' .. kept .. ' ' .. id or 'absent'
  -- without: a cancel reads any number of large records
  if record then bytes = bytes + #record end
  if bytes >= 4194304 then
    for _ = at + 1, #ARGV do lines[#lines + 1] = 'later' end
    break
  end
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
--- if limited
if events then
  --- include: call/clock, history/keep
end
--- end
-- with `return removed > 0 and answer(table.concat(lines, '\n')) or table.concat(lines, '\n')`: a late copy of a cancel removes the job that was pushed since
return answer(table.concat(lines, '\n'))
