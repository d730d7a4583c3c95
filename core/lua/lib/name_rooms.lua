-- What the limits of names leave to this call, of each name the smaller number of places and of what its rate lets start. How many
-- jobs of a name have a place is not counted, but looked up in `places`, so that no count can be wrong.
do
  local most_of, first_parked, rates = named.most_of, named.first, named.rates
  local rooms, places_left = {}, {}
  local function room(number)
    if not rooms[number] then
      local most = most_of[number]
      local is_open = most == 0 or most == math.huge
      places_left[number] = is_open and math.huge or math.max(0, most - redis.call('ZCOUNT', places, number, number))
      local rate = rates and rates[number]
      rooms[number] = math.min(places_left[number], rate and rate.left or math.huge)
    end
    return rooms[number]
  end

  -- To know what is parked is a hint, which must not fail a verb.
  local function is_some_parked()
    local some = redis.pcall('ZCARD', parked)
    return type(some) == 'number' and some > 0
  end

  named.room = room
  named.take = function(number)
    rooms[number] = room(number) - 1
    places_left[number] = places_left[number] - 1
  end
  -- May a parked job run now?
  named.takeable = function()
    if not is_some_parked() then return false end
    for _, number in ipairs(named.numbers) do
      if room(number) > 0 and #first_parked(number, nil, 1) > 0 then return true end
    end
    return false
  end

  if rates then
    --- include: rate
    local rated, fields = {}, {}
    for number in pairs(rates) do
      rated[#rated + 1] = number
      fields[#fields + 1] = 'rate_at:' .. number
    end
    for at, kept in ipairs(redis.call('HMGET', meta, unpack(fields))) do
      local set = rates[rated[at]]
      local rate = open_rate(fields[at], set.jobs, set.us, kept)
      rate.left = starts_left(rate)
      rates[rated[at]] = rate
    end

    local started = {}
    named.note_start = function(number) started[number] = (started[number] or 0) + 1 end
    named.charge_rates = function()
      for number, count in pairs(started) do
        if rates[number] then count_starts(rates[number], count) end
      end
    end
    named.note_late = function()
      for _, number in ipairs(rated) do note_late(rates[number]) end
    end
    -- The first microsecond at which the rate of a name lets a parked job start that has a place.
    named.next_start = function()
      local next_start = math.huge
      if not is_some_parked() then return next_start end
      for _, number in ipairs(rated) do
        if room(number) == 0 and places_left[number] > 0 and #first_parked(number, nil, 1) > 0 then
          next_start = math.min(next_start, opens_at(rates[number]))
        end
      end
      return next_start
    end
  end
end
