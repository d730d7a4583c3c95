-- Notes that a worker is alive for `life_ms` from now, or with 0 that it leaves, and what its runs came to; forgets those that are
-- dead.
-- Moves:   nothing.
-- Replies: {how many jobs in `failed` are unheard, how many failed jobs were trimmed since the last report to a worker, ms until the
--          next schedule fires if there is one}; or `superseded`, `forgotten`, `format <n>`.
-- Cost:    O(log n); at most 100 dead ones; where runs were counted O(names), at most 201, and what is old of four times ten minutes.
local noted_format = redis.call('HGET', meta, 'format')
--- include: call/newer_format
-- without: a foreign type leaves a worker without what it says of itself
redis.call('HLEN', worker_infos)
-- without: a foreign type lets a worker be listed behind an error
redis.call('ZCARD', unheard)
local trimmed = redis.pcall('HGET', stats, 'trimmed')
trimmed = type(trimmed) == 'string' and tonumber(trimmed) or 0
--- include: call/once, call/clock
local function reply_of(unheard_jobs, trimmed_jobs)
  local reply = { tonumber(unheard_jobs), tonumber(trimmed_jobs) }
  local schedule_next = redis.call('HGET', meta, 'schedule_next')
  -- without: a worker does not hear of schedules that were there before it
  if schedule_next then reply[3] = math.max(0, tonumber(schedule_next) - now) end
  return reply
end
if earlier then
  local unheard_then, trimmed_then = string.match(earlier, '^(%d+) (%d+)$')
  -- with `return earlier`: trimmed jobs that a lost reply told of are logged by nobody
  return unheard_then and reply_of(unheard_then, trimmed_then) or earlier
end
--- include: call/allow_growing
if #ARGV >= first_item then
  --- include: rates/add
end
-- with `true` for `life_ms > 0`: a worker that has stopped stays among those who are dead
if life_ms > 0 then
  redis.call('ZADD', workers, string.format('%.0f', now + life_ms), worker)
  redis.call('HSET', worker_infos, worker, info)
else
  redis.call('ZREM', workers, worker)
  redis.call('HDEL', worker_infos, worker)
end
local dead = redis.call('ZRANGEBYSCORE', workers, '-inf', now_text, 'LIMIT', 0, 100)
if #dead > 0 then
  -- without: dead workers stay for ever
  redis.call('ZREM', workers, unpack(dead))
  -- without: what dead workers said stays for ever
  redis.call('HDEL', worker_infos, unpack(dead))
end
--- include: failed/unheard_line
-- Reported once, to one worker, which logs it.
local reported = tonumber(redis.call('HGET', meta, 'trimmed_reported') or 0)
-- without `and trimmed ~= reported`: each beat writes
if life_ms > 0 and trimmed ~= reported then
  redis.call('HSET', meta, 'trimmed_reported', string.format('%.0f', trimmed))
  -- with `trimmed` for `math.max(0, trimmed - reported)`: trimmed jobs are reported again and again
  reported = math.max(0, trimmed - reported)
else
  reported = 0
end
local waiting = redis.call('ZCOUNT', unheard, '-inf', now_text) + last - heard_to
answer(string.format('%.0f %.0f', waiting, reported))
return reply_of(waiting, reported)
