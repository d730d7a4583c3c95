-- What limits leave to this call: of places, and of what a rate lets start, the smaller number. How many jobs of a name have a place
-- is not counted, but looked up in `places`, so that no count can be wrong; the queue's own places are those of all that is reserved.
-- Needs: `limited`, `now_us`. Gives: in `limited` the functions below.
do
  --- include: rate
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
      limit.places_left = most and math.max(0, most - taken) or math.huge
      limit.room = math.min(limit.places_left, limit.rate and starts_left(limit.rate) or math.huge)
    end
    return limit.room
  end

  local function start(limit, count)
    limit.room = room(limit) - count
    limit.places_left = limit.places_left - count
    limit.started = (limit.started or 0) + count
  end

  -- The first microsecond at which one may start whose limit has no room now.
  local function opens(limit) return limit.places_left > 0 and opens_at(limit.rate) or math.huge end

  -- To know what is parked is a hint, which must not fail a verb.
  local function is_some_parked()
    local some = redis.pcall('ZCARD', parked)
    return type(some) == 'number' and some > 0
  end

  limited.room, limited.start, limited.opens = room, start, opens
  -- May a parked job run now?
  limited.takeable = function()
    if not is_some_parked() then return false end
    for _, limit in ipairs(limited.names) do
      if room(limit) > 0 and #first_parked(limit.number, nil, 1) > 0 then return true end
    end
    return false
  end
  -- The first microsecond at which the rate of a name lets a parked job start that has a place.
  limited.next_start = function()
    local next_start = math.huge
    if #rated == 0 or not is_some_parked() then return next_start end
    for _, limit in ipairs(rated) do
      if limit.number > 0 and room(limit) == 0 and limit.places_left > 0 and #first_parked(limit.number, nil, 1) > 0 then
        next_start = math.min(next_start, opens(limit))
      end
    end
    return next_start
  end
  limited.note_late = function()
    for _, limit in ipairs(rated) do note_late(limit.rate) end
  end
  limited.charge_rates = function()
    for _, limit in ipairs(rated) do
      if limit.started then count_starts(limit.rate, limit.started) end
    end
  end
end
