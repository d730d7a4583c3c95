-- Fires schedules: pushes the jobs of slots, each schedule only while its revision and its next slot are as the caller read them.
-- Moves:   nothing -> ready; if one replaces another, that from any state -> gone.
-- Replies: a line a schedule: `moved` (another one has fired it, or it was changed), or `fired` with `pushed`, `skipped` or `replaced`
--          for each slot; then a line `awaited <id>` for each job that was replaced and for whose result somebody may wait; or
--          `format <n>`, `levels <list>`.
-- Cost:    O(log n) a job, at most 1,000 jobs and about 4 MiB a call. Right when sent twice: by then the next slot is another one.
--- include: call/meta
-- without: jobs are pushed into levels and formats that others do not see
if refused then return refused end
--- include: call/clock, wake/one, wake/at, job/routing, job/keeps_result, job/delayed_member, job/remove, push/holder
-- The reads that fail on a foreign type come before the first write, so that nothing fires by half.
-- without: a foreign type under `schedule_due` fires a slot again and again
redis.call('ZCARD', schedule_due)
-- without: a foreign type under `schedule_fires` fires a slot by half
redis.call('HLEN', schedule_fires)
-- without `redis.call('LLEN', ready(used))`: a foreign type under a list leaves a record that nobody hands out
for used in string.gmatch(passed_levels, '%d') do redis.call('LLEN', ready(used)) end

local MOST_FIRES = 20
-- The last twenty lines of what is kept, with these behind.
local function keep_fires(name, added)
  local lines = {}
  for line in string.gmatch(redis.call('HGET', schedule_fires, name) or '', '[^\n]+') do lines[#lines + 1] = line end
  for _, line in ipairs(added) do lines[#lines + 1] = line end
  -- with `1` for `math.max(1, #lines - MOST_FIRES + 1)`: what is kept of fires grows for ever
  redis.call('HSET', schedule_fires, name, table.concat(lines, '\n', math.max(1, #lines - MOST_FIRES + 1)))
end

local lines, awaited = {}, {}
local stored, some_large = 0, false
--- if limited
--- include: history/events, push/fits
local is_freed = false
--- end
-- ARGV from first_item: (name, how its state begins, its new state, when it fires next in ms or `+inf`, overlap, how many slots) each,
-- and behind it (slot, id, record) each.
local at = first_item
while at <= #ARGV do
  local name, expected, slots = ARGV[at], ARGV[at + 1], tonumber(ARGV[at + 5])
  local state = redis.call('HGET', schedule_state, name)
  -- with `if false then`: a slot fires once for each worker
  if not state or string.sub(state, 1, #expected) ~= expected then
    lines[#lines + 1] = 'moved'
  else
    -- A server that dies may keep the first of these writes alone (`docs/servers.md`), so their order is that of a slot that fires once: the
    -- record of its job, by which the slot is known if it comes again; the state; and then the entry that lets the job run.
    local outcomes, fires = { 'fired' }, {}
    local entering, entry_of = {}, {}
    for i = at + 6, at + 3 + 3 * slots, 3 do
      local id, record = ARGV[i + 1], ARGV[i + 2]
      local level, _, key = routing(record)
      local holder = holder_of(id, key)
      local line
      -- The job of this very slot is there already: it fired, and the schedule was put back to before that, or its state was lost.
      -- without `or holder == id`: a slot that comes again cancels its own job
      if holder and (ARGV[at + 4] ~= 'replace' or holder == id) then
        line = 'skipped'
      --- if limited
      -- without 2 lines: schedules fill a queue beyond its length
      elseif not holder and room_left and room_left < 1 then
        line = 'skipped'
      --- end
      else
        --- if limited
        if room_left and not holder then room_left = room_left - 1 end
        --- end
        if holder then
          -- A removal first, and a server without memory would let all of this call in: this changes nothing, but is refused there.
          -- without: a full server takes the jobs of schedules that replace
          if stored == 0 then redis.call('HSET', schedule_state, name, state) end
          -- It is of an earlier slot of this call: it gets its entry, which goes with it.
          local entry = entry_of[holder]
          if entry then
            redis.call('RPUSH', ready(entering[entry][2]), holder)
            entering[entry], entry_of[holder] = false, nil
          end
          local entered = level
          --- if limited
          local are_expired = false
          --- end
          --- include: push/make_room
        end
        if key then redis.call('HSET', keys, key, id) end
        redis.call('HSET', jobs, id, record)
        -- without: nobody asks for the sizes of large records
        if #record > LARGE then some_large = true end
        entering[#entering + 1] = { id, level }
        entry_of[id] = #entering
        stored = stored + 1
        --- if limited
        happened('P', id, 1, ';schedule')
        --- end
      end
      line = line and string.match(line, '%a+') or 'pushed'
      outcomes[#outcomes + 1] = line
      fires[#fires + 1] = ARGV[i] .. ';' .. now_text .. ';' .. line
    end
    redis.call('HSET', schedule_state, name, ARGV[at + 2])
    redis.call('ZADD', schedule_due, ARGV[at + 3], name)
    for _, job in ipairs(entering) do
      if job then redis.call('RPUSH', ready(job[2]), job[1]) end
    end
    if #fires > 0 then keep_fires(name, fires) end
    lines[#lines + 1] = table.concat(outcomes, ' ')
  end
  at = at + 6 + 3 * slots
end
--- include: call/first_use, schedule/head
if stored > 0 then
  if some_large and not noted_large then redis.call('HSET', meta, 'large', '1') end
  -- without: a waiting worker does not hear of a job whose time has come
  wake_one()
  redis.pcall('HINCRBY', stats, 'pushed', stored)
end
--- if limited
if is_freed then
  --- include: limits/place_freed
end
--- include: history/keep
--- end
return table.concat(lines, '\n') .. table.concat(awaited)
