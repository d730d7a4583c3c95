-- Removes jobs in whatever state they are in; who runs one loses its lease.
-- Moves:   delayed | ready | reserved | failed -> gone.
-- Replies: one line a job: `<state it was in> <id>` or `absent`; or `superseded`, `format <n>`, `levels <list>`.
-- Cost:    O(log n) a job, at most 1,000 a call.
--- include: once
if earlier then return earlier end
--- include: meta
if refused then return refused end
--- include: routing, delayed_member, remove, resolve
local lines = {}
local removed, freed = 0, false
for at = first_item, #ARGV do
  local id = resolve(by, ARGV[at])
  local state = id and remove(id)
  if state then removed = removed + 1 end
  if state == 'reserved' then freed = true end
  lines[#lines + 1] = state and state .. ' ' .. id or 'absent'
end
if removed > 0 then
  redis.pcall('HINCRBY', stats, 'cancelled', removed)
  if freed then
    --- include: place_freed
  end
else
  --- include: room_first
end
return answer(table.concat(lines, '\n'))
