-- Puts the batch that is on its way to another queue back into the state that it was in, where it is the oldest: that queue has none of it.
-- Moves:   gone, by way of `departing` -> delayed | ready | failed.
-- Replies: how many jobs came back; or `fenced <token>` (a bridge with this token has been here), `format <n>`, `levels <list>`.
-- Cost:    O(log n) a job, at most as many as one `depart` takes out.
--- include: call/meta
if refused then return refused end
local noted_token, noted_sequence, state, unfinished =
  unpack(redis.call('HMGET', departed, 'token', 'sequence', 'state', 'unfinished'))
-- without: a bridge whose lock was lost goes on beside another one
if noted_token and tonumber(noted_token) > tonumber(token) then return 'fenced ' .. noted_token end
-- A late copy: that batch is there no more.
-- without: a late copy gives a batch back that is on its way
if noted_sequence ~= sequence then return '0' end
local entries = redis.call('LRANGE', departing, '0', '-1')
-- The reads that fail on a foreign type come before the first write, so that no job is in two states.
-- without 5 lines: a foreign type under a key gives a batch back by half
redis.call('HLEN', jobs)
redis.call('HLEN', returned)
redis.call('HLEN', keys)
redis.call('ZCARD', delayed)
redis.call('ZCARD', failed)
-- without `redis.call('LLEN', ready(used))`: a foreign type under a list gives a batch back by half
for used in string.gmatch(passed_levels, '%d') do redis.call('LLEN', ready(used)) end
--- include: call/allow_growing
--- include: call/clock, job/routing, job/delayed_member, job/put_first, failed/note_unheard, wake/one, wake/at, history/events
local some_ready, earliest = false, nil
-- A server that dies may keep the first of these writes alone (`docs/servers.md`): nothing runs before the batch is on its way no more.
redis.call('HSET', departed, 'unfinished', '1')
local coming = {}
-- The newest first, so that the oldest is at the head in the end.
for at = #entries - 3, 1, -4 do
  local id, record, came_back, score = unpack(entries, at, at + 3)
  local there = redis.call('HGET', jobs, id)
  -- Somebody has given its id to another job since; or it is this job, of a call that was cut off.
  -- without: two jobs of one id are one
  if there and not (unfinished and there == record) then id = id .. '.' .. sequence end
  local level, _, key = routing(record)
  local holder = key and redis.call('HGET', keys, key)
  -- Its key was free meanwhile.
  -- with `local is_taken = false`: two live jobs have one key
  local is_taken = state ~= 'failed' and holder and holder ~= id and redis.call('HEXISTS', jobs, holder) == 1
  if is_taken then
    local counts = string.match(came_back, '^%d+;%d+;') or '0;0;'
    came_back = counts .. 'its key belongs to another job since a bridge had taken this one out'
    score = now_text
  end
  -- without: a job that was on its way loses its key
  if key and state ~= 'failed' and not is_taken then redis.call('HSET', keys, key, id) end
  -- without: a job that was on its way forgets how often it failed
  if came_back ~= '' then redis.call('HSET', returned, id, came_back) end
  redis.call('HSET', jobs, id, record)
  coming[#coming + 1] = { id, level, score, is_taken and 'failed' or state, is_taken }
end
redis.call('DEL', departing)
-- The other queue knows this batch as one that never comes, by the sequence behind its own.
-- without: the next batch is taken for this one, and never comes into the other queue
redis.call('HSET', departed, 'sequence', string.format('%.0f', sequence + 1))
for _, job in ipairs(coming) do
  local id, level, score, its_state, fails_now = unpack(job)
  happened('K', id, 1, its_state)
  if its_state == 'ready' then
    put_first(id, level)
    some_ready = true
  elseif its_state == 'delayed' then
    redis.call('ZADD', delayed, score, delayed_member(id, level))
    earliest = math.min(tonumber(score), earliest or tonumber(score))
  else
    redis.call('ZADD', failed, score, id)
    if fails_now then
      -- without: no worker hears of a job that fails on its way back
      note_unheard(id)
      redis.pcall('HINCRBY', stats, 'failed', 1)
    end
  end
end
redis.call('HDEL', departed, 'unfinished')
-- without: a waiting worker does not hear of jobs that are ready again
if some_ready then wake_one() end
-- without: a waiting worker does not hear of a job that is delayed again
if earliest then wake_for(earliest) end
--- include: history/keep
return string.format('%.0f', #entries / 4)
