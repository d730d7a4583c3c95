-- A rate is the generic cell rate algorithm (GCRA; ITU-T I.371, annex A; B. Leach, "Rate limiting, cells, and GCRA", 2015), a token
-- bucket of one number: `at` is when the next job would start if all came evenly, and may be ahead of now by as long as a burst
-- of `jobs` takes. It has whole microseconds and a `rest` in `jobs`ths of one, so that rounding neither gives nor takes a job.
-- `meta` keeps it as `<at>;<rest>`.
-- Needs: `now_us`. Gives: `open_rate`, `starts_left`, `opens_at`, `count_starts`, `note_late`.
local function open_rate(field, starts, us, kept)
  local at, rest = string.match(kept or '', '^(%d+);(%d+)$')
  -- with `tonumber(rest or 0)` for `math.min(tonumber(rest or 0), starts - 1)`: the rest of a finer rate counts as whole microseconds
  at, rest = tonumber(at or 0), math.min(tonumber(rest or 0), starts - 1)
  -- without: after a rest all that could have started starts at once
  if at < now_us then at, rest = now_us, 0 end
  -- Left by a slower rate, or by a clock that was set back: it never means more than that a burst has just started.
  local is_late = at > now_us + us
  -- without: a slower rate that was set before holds the queue up for hours
  if is_late then at, rest = now_us + us, 0 end
  return { field = field, jobs = starts, us = us, at = at, rest = rest, is_late = is_late }
end

local function starts_left(rate)
  return math.max(0, math.floor(((now_us + rate.us - rate.at) * rate.jobs - rate.rest) / rate.us))
end

-- The first microsecond at which the rate lets a job start.
local function opens_at(rate) return rate.at + math.ceil((rate.rest + rate.us) / rate.jobs) - rate.us end

-- So many jobs start now.
local function count_starts(rate, started)
  local total = rate.rest + started * rate.us
  -- with `0` for `total % rate.jobs`: rounding gives more jobs than the rate
  rate.at, rate.rest = rate.at + math.floor(total / rate.jobs), total % rate.jobs
  redis.call('HSET', meta, rate.field, string.format('%.0f;%.0f', rate.at, rate.rest))
end

-- What came too late is written down, or the same would be found a second later.
local function note_late(rate)
  -- without `redis.pcall('HSET', meta, rate.field, string.format('%.0f;0', rate.at))`: the end of a slower rate moves on with the clock
  if rate.is_late then redis.pcall('HSET', meta, rate.field, string.format('%.0f;0', rate.at)) end
end
