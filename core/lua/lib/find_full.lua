-- Which jobs of a chunk have a name with a limit, and of which the name is full: those are parked, and are no jobs of this call.
-- What was parked under a number that is no more that of its name counts by its name from now on.
--- include: routing
number_of, is_full = {}, {}
for k = 1, length do
  local record = records[k]
  local _, _, _, _, name = routing(record or '{')
  local own = name and named.number_of[name]
  if own then
    number_of[k] = own
    if named.room(own) > 0 then
      named.take(own)
    else
      parked_bytes = parked_bytes + #record
      is_full[k], records[k] = true, false
    end
  end
end
