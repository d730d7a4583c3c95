-- The limits of names: `<number>;<most>;<name>` a line, the most 0 where the limit was taken away. How many jobs of a name have
-- a place is not counted, but looked up in `places`, so that no count can be wrong.
do
  --- include: parked
  local numbers, number_of, most_of, rooms = {}, {}, {}, {}
  for number, most, name in string.gmatch(names, '(%d+);(%d+);([^\n]*)') do
    number = tonumber(number)
    numbers[#numbers + 1] = number
    number_of[name] = number
    most_of[number] = tonumber(most)
  end
  local function room(number)
    if not rooms[number] then
      local most = most_of[number]
      rooms[number] = most == 0 and math.huge or math.max(0, most - redis.call('ZCOUNT', places, number, number))
    end
    return rooms[number]
  end
  named = {
    numbers = numbers, number_of = number_of, most_of = most_of, first = first_parked, room = room,
    take = function(number) rooms[number] = room(number) - 1 end,
    -- May a parked job run now? To know is a hint, which must not fail a verb.
    takeable = function()
      local some = redis.pcall('ZCARD', parked)
      if type(some) ~= 'number' or some == 0 then return false end
      for _, number in ipairs(numbers) do
        if room(number) > 0 and #first_parked(number, nil, 1) > 0 then return true end
      end
      return false
    end,
  }
end
