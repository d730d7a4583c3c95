-- What the queue's limits leave to this call, `room`: of `places_left` (jobs that may run beside the reserved ones) and of what its
-- rate lets start, the smaller number.
--- include: rate
local rate
local most, jobs_text, us_text = string.match(noted_limits, '^(%d+);(%d+);(%d+)$')
if most and most ~= '0' then
  places_left = math.max(0, most - redis.call('ZCARD', reserved))
  room = places_left
end
if most and jobs_text ~= '0' then
  rate = open_rate('rate_at', tonumber(jobs_text), tonumber(us_text), redis.call('HGET', meta, 'rate_at'))
  note_late(rate)
  room = math.min(room, starts_left(rate))
end
opens_us = function() return opens_at(rate) end
charge_rate = function(started)
  if rate then count_starts(rate, started) end
end
