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
local flags = {}
for i = first_item, #ARGV, 5 do
  local name, expected = ARGV[i], ARGV[i + 1]
  local state = redis.call('HGET', schedule_state, name)
  local is_expected = not state
  if expected ~= '' then is_expected = state and string.sub(state, 1, #expected) == expected end
  -- with `if false then`: of two changes at once, the one that read less wins
  if not is_expected then
    flags[#flags + 1] = '0'
  elseif ARGV[i + 2] == '' then
    redis.call('HDEL', schedule_state, name)
    redis.call('HDEL', schedules, name)
    redis.call('ZREM', schedule_due, name)
    -- without: a schedule that was removed leaves its fires
    redis.call('HDEL', schedule_fires, name)
    flags[#flags + 1] = '1'
  else
    redis.call('HSET', schedules, name, ARGV[i + 2])
    redis.call('HSET', schedule_state, name, ARGV[i + 3])
    redis.call('ZADD', schedule_due, ARGV[i + 4], name)
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
