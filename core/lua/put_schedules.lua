-- Puts, changes and removes schedules, each only while it is as its caller read it.
-- Moves:   nothing.
-- Replies: a flag a schedule: `1`, or `0` if it was not as expected and nothing was done; or `superseded`, `forgotten`, `format <n>`,
--          `levels <list>`.
-- Cost:    O(log n) a schedule, at most 100 or about 4 MiB a call.
--- include: call/once
-- without: a late copy of a put brings a schedule back that was removed
if earlier then return earlier end
--- include: call/meta
-- without: an old client writes into a queue of a newer format
if refused then return refused end
--- include: call/clock, wake/promised
-- The reads that fail on a foreign type come before the first write.
-- without: a foreign type under `schedules` puts a schedule by half
redis.call('HLEN', schedules)
-- without: a foreign type under `schedule_due` puts a schedule by half
redis.call('ZCARD', schedule_due)
-- without: a foreign type under `schedule_fires` removes a schedule by half
redis.call('HLEN', schedule_fires)

-- ARGV from first_item: (name, how its state begins or '' if there is none, definition or '' to remove it, state, when it fires in ms or
-- `+inf`) each.
--
-- A server that dies may keep the first of these writes alone (`docs/servers.md`). A schedule that is looked at too soon fires nothing, but
-- one that is looked at too late does not fire: so a sooner moment comes before the state, and a later one behind it. A put is done when the
-- definition is written: until then the same put finds another one, and does all of it again.
local function moment(text) return string.find(text, 'inf', 1, true) and math.huge or tonumber(text) end
local as_read, is_sooner, earliest = {}, {}, math.huge
for i = first_item, #ARGV, 5 do
  local name, expected = ARGV[i], ARGV[i + 1]
  local state = redis.call('HGET', schedule_state, name)
  as_read[i] = not state
  if expected ~= '' then as_read[i] = state and string.sub(state, 1, #expected) == expected end
  if as_read[i] and ARGV[i + 2] ~= '' then
    local fires_at = moment(ARGV[i + 4])
    earliest = math.min(earliest, fires_at)
    is_sooner[i] = state and fires_at < moment(redis.call('ZSCORE', schedule_due, name) or 'inf')
    if is_sooner[i] then redis.call('ZADD', schedule_due, ARGV[i + 4], name) end
  end
end
if earliest < moment(redis.call('HGET', meta, 'schedule_next') or 'inf') then
  redis.call('HSET', meta, 'schedule_next', string.format('%.0f', earliest))
end
local flags = {}
for i = first_item, #ARGV, 5 do
  local name = ARGV[i]
  -- with `if false then`: of two changes at once, the one that read less wins
  if not as_read[i] then
    flags[#flags + 1] = '0'
  elseif ARGV[i + 2] == '' then
    redis.call('HDEL', schedules, name)
    redis.call('ZREM', schedule_due, name)
    -- without: a schedule that was removed leaves its fires
    redis.call('HDEL', schedule_fires, name)
    -- The last one: until then it can be removed again.
    redis.call('HDEL', schedule_state, name)
    flags[#flags + 1] = '1'
  else
    redis.call('HSET', schedule_state, name, ARGV[i + 3])
    if not is_sooner[i] then redis.call('ZADD', schedule_due, ARGV[i + 4], name) end
    redis.call('HSET', schedules, name, ARGV[i + 2])
    flags[#flags + 1] = '1'
  end
end
--- include: call/first_use, schedule/head
local timer = tonumber(redis.call('HGET', meta, 'schedule_timer') or 0)
-- with `if head then`: each put wakes a worker
if head and nobody_comes(timer, tonumber(head)) then
  -- A hint, as every wake-up. It says what it is for, and has room behind two that are for jobs.
  local waking = redis.pcall('LLEN', wake)
  -- with `true` for `waking < 3`: the wake list grows with every schedule
  -- without `type(waking) == 'number' and`: a foreign type under `wake` fails every put
  if type(waking) == 'number' and waking < 3 then redis.pcall('LPUSH', wake, 'schedules') end
end
return answer(table.concat(flags))
