-- What the queue's limits leave to this call, `room`: of `places_left` (jobs that may run beside the reserved ones) and of what its
-- rate lets start, the smaller number. The rate is the generic cell rate algorithm (GCRA; ITU-T I.371, annex A; B. Leach, "Rate
-- limiting, cells, and GCRA", 2015), a token bucket of one number: `rate_at` is when the next job would start if all came evenly,
-- and may be ahead of now by as long as a burst of `rate_jobs` takes. It has whole microseconds and a rest in `rate_jobs`ths of
-- one, so that rounding neither gives nor takes a job.
local rate_jobs, rate_us, rate_at, rate_rest
local most, jobs_text, us_text = string.match(known[7], '^(%d+);(%d+);(%d+)$')
if most and most ~= '0' then
  places_left = math.max(0, most - redis.call('ZCARD', reserved))
  room = places_left
end
if most and jobs_text ~= '0' then
  rate_jobs, rate_us = tonumber(jobs_text), tonumber(us_text)
  rate_at, rate_rest = string.match(redis.call('HGET', meta, 'rate_at') or '', '^(%d+);(%d+)$')
  rate_at, rate_rest = tonumber(rate_at or 0), math.min(tonumber(rate_rest or 0), rate_jobs - 1)
  if rate_at < now_us then rate_at, rate_rest = now_us, 0 end
  if rate_at > now_us + rate_us then
    -- Left by a slower rate, or by a clock that was set back: it never means more than that a burst has just started. Written
    -- down, or the same would be found a second later.
    rate_at, rate_rest = now_us + rate_us, 0
    redis.pcall('HSET', meta, 'rate_at', string.format('%.0f;0', rate_at))
  end
  room = math.min(room, math.max(0, math.floor(((now_us + rate_us - rate_at) * rate_jobs - rate_rest) / rate_us)))
end

-- The first microsecond at which the rate lets a job start.
opens_us = function() return rate_at + math.ceil((rate_rest + rate_us) / rate_jobs) - rate_us end

-- So many jobs start now.
charge_rate = function(started)
  if not rate_jobs then return end
  local total = rate_rest + started * rate_us
  rate_at, rate_rest = rate_at + math.floor(total / rate_jobs), total % rate_jobs
  redis.call('HSET', meta, 'rate_at', string.format('%.0f;%.0f', rate_at, rate_rest))
end
