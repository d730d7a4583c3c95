-- The limits of names: `<number>;<most>;<name>` a line, or `<number>;<most>:<jobs>:<us>;<name>` with a rate. The most is 0 where
-- only the rate limits, here as many as there are; and 0 without a rate where the limits were taken away. The name is empty
-- where it was lost with `meta`, and so is that of a job without a name.
do
  --- include: parked
  local numbers, number_of, most_of, rates = {}, {}, {}, nil
  for number, most, rate, name in string.gmatch(names, '(%d+);(%d+)([:%d]*);([^\n]*)') do
    number = tonumber(number)
    numbers[#numbers + 1] = number
    if name ~= '' then number_of[name] = number end
    most_of[number] = tonumber(most)
    if rate ~= '' then
      local jobs, us = string.match(rate, '^:([1-9]%d*):([1-9]%d*)$')
      if jobs then
        rates = rates or {}
        rates[number] = { jobs = tonumber(jobs), us = tonumber(us) }
        if most == '0' then most_of[number] = math.huge end
      end
    end
  end
  named = { numbers = numbers, number_of = number_of, most_of = most_of, rates = rates, first = first_parked }
end
