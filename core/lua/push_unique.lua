-- Stores new jobs whose ids are the user's or that have keys: what holds the id or the key already decides.
-- Moves:   nothing -> delayed | ready; with `replace` also the job that has the id or key -> gone.
-- Replies: one line a job: `created`, `duplicate <id>`, `kept <id>`, `replaced <id>`, and then a line `awaited <id>` for each that
--          was replaced and for whose result somebody may wait; or `superseded`, `format <n>`, `levels <list>`.
-- Cost:    O(log n) a job, at most 1,000 jobs a call.
--- include: once
if earlier then return earlier end
--- include: meta
if refused then return refused end
--- include: clock, due, wake, routing, delayed_member, keeps_result

-- The reads that fail on a foreign type come before the first write, so that nothing is stored by half.
redis.call('ZCARD', delayed)
for used in string.gmatch(passed_levels, '%d') do redis.call('LLEN', ready(used)) end
redis.call('HLEN', keys)
redis.call('HLEN', returned)

-- Who holds this job's id or key already.
local function holder_of(id, key)
  if redis.call('HEXISTS', jobs, id) == 1 then return id end
  local holder = key and redis.call('HGET', keys, key)
  if holder and redis.call('HEXISTS', jobs, holder) == 1 then return holder end
  return nil
end

-- ARGV from first_item: (id, record, due, what came back with an import or '') each.
local lines, awaited = {}, {}
local stored = 0
local some_ready, earliest, some_large = false, nil, false
--- if limited
local is_freed = false
--- end
for i = first_item, #ARGV, 4 do
  local id, record = ARGV[i], ARGV[i + 1]
  local level, _, key = routing(record)
  local holder = holder_of(id, key)
  local line = 'created'
  if holder and if_duplicate ~= 'replace' then
    line = (if_duplicate == 'keep' and 'kept ' or 'duplicate ') .. holder
  else
    if holder then
      --- include: remove
      -- A removal first, and a server without memory would let all of this call in: this grows nothing, but is refused there.
      if stored == 0 then redis.call('HSET', meta, 'format', FORMAT) end
      -- The id may be that of one job and the key that of another: both are replaced.
      while holder do
        line = 'replaced ' .. holder
        local state, replaced = remove(holder, true)
        --- if limited
        if state == 'reserved' then is_freed = true end
        --- end
        -- Whoever waits for a job of this very id waits for the new one now.
        if holder ~= id and keeps_result(replaced) then awaited[#awaited + 1] = '\nawaited ' .. holder end
        holder = holder_of(id, key)
      end
    end
    redis.call('HSET', jobs, id, record)
    if ARGV[i + 3] ~= '' then redis.call('HSET', returned, id, ARGV[i + 3]) end
    if key then redis.call('HSET', keys, key, id) end
    if #record > LARGE then some_large = true end
    local at = due_of(ARGV[i + 2])
    if at then
      redis.call('ZADD', delayed, at, delayed_member(id, level))
      earliest = math.min(at, earliest or at)
    else
      redis.call('RPUSH', ready(level), id)
      some_ready = true
    end
    stored = stored + 1
  end
  lines[#lines + 1] = line
end
local reply = table.concat(lines, '\n') .. table.concat(awaited)
if stored == 0 then
  --- include: room_first
  return answer(reply)
end

--- include: first_use
if some_large and not noted_large then redis.call('HSET', meta, 'large', '1') end
if some_ready then wake_one() end
if earliest then wake_for(earliest) end
redis.pcall('HINCRBY', stats, 'pushed', stored)
--- if limited
if is_freed then
  --- include: place_freed
end
--- end
return answer(reply)
