-- Notes when the next schedule fires, for those who do not read the schedules.
-- Needs: nothing. Gives: `head`, that moment in ms as text; nil if none fires.

local head = redis.call('ZRANGE', schedule_due, '0', '0', 'WITHSCORES')[2]
-- without: workers wait for schedules that are paused or over
if head == 'inf' then head = nil end
if head then
  redis.call('HSET', meta, 'schedule_next', head)
else
  redis.call('HDEL', meta, 'schedule_next')
end
