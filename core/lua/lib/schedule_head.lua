-- Notes when the next schedule fires, for those who do not read the schedules, and wakes a worker if nobody comes back by then.
-- Needs: `now`. Gives: nothing.

local head = redis.call('ZRANGE', schedule_due, '0', '0', 'WITHSCORES')[2]
-- with `if not head then`: workers wait for schedules that are paused or over
if not head or head == 'inf' then
  redis.call('HDEL', meta, 'schedule_next')
else
  redis.call('HSET', meta, 'schedule_next', head)
  local timer = tonumber(redis.call('HGET', meta, 'schedule_timer') or 0)
  -- with `if timer <= now then`: a schedule that fires sooner than those before it fires late
  if timer <= now or tonumber(head) < timer then
    -- A hint, as every wake-up. It says what it is for, and has room behind two that are for jobs.
    local waking = redis.pcall('LLEN', wake)
    -- with `true` for `waking < 3`: the wake list grows with every schedule
    if type(waking) == 'number' and waking < 3 then redis.pcall('LPUSH', wake, 'schedules') end
  end
end
