-- Stores new jobs whose ids are the user's or that have keys: what holds the id or the key already decides.
-- Moves:   nothing -> delayed | ready; with `replace` also the job that has the id or key -> gone. Of jobs that are stored under an id
--          that was given, results of earlier jobs of that id -> gone.
-- Replies: `queue_full <length> <how many fit>` if not all that are new fit, and none is stored; or one line a job: `created`, `duplicate <id>`, `kept <id>`, `replaced <id>`, with
--          `if_full` = `fill` also `full <length>` for one that is not stored, and then a line `awaited <id>` for each that
--          was replaced and for whose result somebody may wait; or `superseded`, `forgotten`, `format <n>`, `levels <list>`.
-- Cost:    O(log n) a job, at most 1,000 jobs a call.
--- include: call/once
-- without: a push sent again finds its own job as the duplicate
if earlier then return earlier end
--- include: call/meta
-- without: jobs are pushed into levels and formats that others do not see
if refused then return refused end
--- include: call/clock, push/due, wake/one, wake/at, job/routing, job/delayed_member, job/keeps_result, job/remove, push/holder, push/expired_holder

-- The reads that fail on a foreign type come before the first write, so that nothing is stored by half.
-- without: a foreign type under `delayed` leaves a record that nobody hands out
redis.call('ZCARD', delayed)
-- without `redis.call('LLEN', ready(used))`: a foreign type under a list leaves a record that nobody hands out
for used in string.gmatch(passed_levels, '%d') do redis.call('LLEN', ready(used)) end
-- without: a foreign type under `keys` leaves a record that nobody hands out
redis.call('HLEN', keys)
-- without: a foreign type under `returned` leaves an imported record that nobody hands out
redis.call('HLEN', returned)

-- ARGV from first_item: (id, record, due, what came back with an import or '') each.
local lines, awaited, earlier_results = {}, {}, {}
local stored = 0
local some_ready, earliest, some_large = false, nil, false
--- if limited
--- include: push/fits
local is_left_out = {}
if room_left and (#ARGV - first_item + 1) / 4 > room_left then
  --- include: push/left_out
  -- without 4 lines: a queue grows beyond its length
  if growth > room_left then
    --- include: call/allow_growing
    return answer('queue_full ' .. noted_max_length .. ' ' .. room_left)
  end
  is_left_out = left_out
end
--- include: history/events
local is_freed = false
--- end
for i = first_item, #ARGV, 4 do
  local id, record = ARGV[i], ARGV[i + 1]
  local level, _, key = routing(record)
  local holder = holder_of(id, key)
  local line = 'created'
  local are_expired = holder and if_duplicate ~= 'replace' and all_expired(key, holder)
  -- with `if false then`: a duplicate replaces the job that is there
  -- without `and not are_expired`: a job that nobody will run keeps another one out
  if holder and if_duplicate ~= 'replace' and not are_expired then
    line = (if_duplicate == 'keep' and 'kept ' or 'duplicate ') .. holder
  --- if limited
  -- with `elseif false then`: of pushes that come together more are stored than fit
  elseif is_left_out[i] then
    line = 'full ' .. noted_max_length
  --- end
  else
    local at = due_of(ARGV[i + 2])
    if holder then
      local entered = not at and level
      -- A removal first, and a server without memory would let all of this call in: this grows nothing, but is refused there.
      -- without: a replacement opens a full server to the jobs behind it
      if stored == 0 then redis.call('HSET', meta, 'format', 'FORMAT') end
      if are_expired then redis.pcall('HINCRBY', stats, 'expired', are_expired) end
      --- include: push/make_room
    end
    redis.call('HSET', jobs, id, record)
    -- without: an imported job forgets how often it failed
    if ARGV[i + 3] ~= '' then redis.call('HSET', returned, id, ARGV[i + 3]) end
    if key then redis.call('HSET', keys, key, id) end
    -- without: nobody asks for the sizes of large records
    if #record > LARGE then some_large = true end
    if at then
      redis.call('ZADD', delayed, at, delayed_member(id, level))
      earliest = math.min(at, earliest or at)
    else
      redis.call('RPUSH', ready(level), id)
      some_ready = true
    end
    stored = stored + 1
    --- if limited
    happened('P', id, 1, (at and string.format('%.0f', at) or '') .. ';')
    --- end
    -- Nothing where the call names none.
    earlier_results[stored] = result((i - first_item) / 4 + 1, result_count)
  end
  lines[#lines + 1] = line
end
local reply = table.concat(lines, '\n') .. table.concat(awaited)
if stored == 0 then
  --- include: call/allow_growing
  -- with `return reply`: a late copy stores the job whose caller had the answer that it is refused
  return answer(reply)
end

-- What a job leaves is its own: waiters of this one must not find what an earlier one of its id has left. Behind the writes that a full
-- server refuses.
-- with `do`: a push of jobs without ids of their own fails
if #earlier_results > 0 then
  -- without: a job that ends without a result has that of an earlier job of its id
  redis.call('DEL', unpack(earlier_results))
end
--- include: push/pushed
--- if limited
if is_freed then
  --- include: limits/place_freed
end
--- include: history/keep
--- end
return answer(reply)
