-- What limits leave to this call: of places, and of what a rate lets start, the smaller number. How many jobs of a name have a place
-- is not counted, but looked up in `places`, so that no count can be wrong; the queue's own places are those of all that is reserved.
-- Needs: `limited`, `now_us`. Gives: nothing; the functions below are in that.
do
  --- include: limits/rate
  local list, first_parked = limited.list, limited.first_parked
  local rated, fields = {}, {}
  for _, limit in ipairs(list) do
    if limit.jobs then
      rated[#rated + 1] = limit
      fields[#fields + 1] = string.format('rate_at:%.0f', limit.number)
    end
  end
  for at, kept in ipairs(#rated > 0 and redis.call('HMGET', meta, unpack(fields)) or {}) do
    rated[at].rate = open_rate(fields[at], rated[at].jobs, rated[at].us, kept)
  end

  -- How many jobs may start now.
  local function room(limit)
    if not limit.room then
      local number, most = limit.number, limit.most
      local taken = most and (number == 0 and redis.call('ZCARD', reserved) or redis.call('ZCOUNT', places, number, number))
      -- with `most` for `math.max(0, most - taken)`: each worker keeps to the limit for itself
      -- with `math.max(0, (most or 0) - (taken or 0))` for `most and math.max(0, most - taken) or math.huge`: a queue with a rate and no limit of places gives nothing
      -- with `limit.jobs and math.huge or 0` for `math.huge`: jobs of a limit that was taken away stay where they are for ever
      limit.places_left = most and math.max(0, most - taken) or math.huge
      -- with `limit.rate and starts_left(limit.rate) or limit.places_left` for `math.min(limit.places_left, limit.rate and starts_left(limit.rate) or math.huge)`: a rate undoes the limit of places
      -- without `limit.rate and starts_left(limit.rate) or`: rates of names limit nothing
      limit.room = math.min(limit.places_left, limit.rate and starts_left(limit.rate) or math.huge)
    end
    return limit.room
  end

  local function start(limit, count)
    -- with `room(limit)`: one reserve takes more jobs of a name than its limit lets
    limit.room = room(limit) - count
    -- without: somebody comes back for a start of a name whose last place was just taken
    limit.places_left = limit.places_left - count
    limit.started = (limit.started or 0) + count
  end

  -- The first microsecond at which one may start whose limit has no room now.
  -- without `limit.places_left > 0 and`: somebody comes back for a start of a name that has no place
  local function opens(limit) return limit.places_left > 0 and opens_at(limit.rate) or math.huge end

  -- To know what is parked is a hint, which must not fail a verb.
  local function is_some_parked()
    -- with `local some = redis.call('ZCARD', parked)`: a foreign type under `parked` fails an ack that is done
    local some = redis.pcall('ZCARD', parked)
    return type(some) == 'number' and some > 0
  end

  limited.room, limited.start, limited.opens = room, start, opens
  -- May a parked job run now?
  limited.takeable = function()
    if not is_some_parked() then return false end
    for _, limit in ipairs(limited.names) do
      -- without: a place of a name that is given back stays empty for a second
      -- with `if #first_parked(limit.number, nil, 1) > 0 then return true end`: every ack wakes a worker for jobs that nobody may take
      if room(limit) > 0 and #first_parked(limit.number, nil, 1) > 0 then return true end
    end
    return false
  end
  -- The first microsecond at which the rate of a name lets a parked job start that has a place.
  limited.next_start = function()
    local next_start = math.huge
    -- without: a foreign type under `parked` fails an ack that is done
    if #rated == 0 or not is_some_parked() then return next_start end
    for _, limit in ipairs(rated) do
      -- without `and #first_parked(limit.number, nil, 1) > 0`: somebody comes back for a name that has no job
      if limit.number > 0 and room(limit) == 0 and #first_parked(limit.number, nil, 1) > 0 then
        -- with `next_start = opens(limit)`: a job waits for the rate of another name
        next_start = math.min(next_start, opens(limit))
      end
    end
    return next_start
  end
  limited.note_late = function()
    -- without: the end of a slower rate moves on with the clock
    for _, limit in ipairs(rated) do note_late(limit.rate) end
  end
  limited.charge_rates = function()
    for _, limit in ipairs(rated) do
      -- without: starts are not counted against the rate of their name
      if limit.started then count_starts(limit.rate, limit.started) end
    end
  end
end
