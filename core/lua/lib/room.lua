-- What limits leave to this reserve.
-- Needs: `want`. Gives: `asked` (what was wanted) and `want`; `room` and `places_left` of the queue's limits, without end where there
-- are none, with `opens_us()` and `charge_rate(started)`; of limits of names, which are asked for where a job of such a name comes
-- up, `named` and `numbers_parked`, the names of which jobs are held back.
local asked, room, places_left = want, math.huge, math.huge
local opens_us, charge_rate
if noted_limits then
  --- include: limits
  want = math.min(want, room)
end
local named, numbers_parked
if names then
  --- include: live_names
  if names == '?' or string.find(names, ';0;', 1, true) then
    names = live_names(names)
    if names ~= noted_names then write_names(names) end
    if not names and not noted_limits then reply[6] = 0 end
  end
  if names then
    --- include: names, name_rooms
    if named.rates then named.note_late() end
    numbers_parked = redis.call('EXISTS', parked) == 1 and named.numbers
  end
end
