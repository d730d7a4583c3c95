-- A job has let its place go, and no other was taken in this call.
if limits then
  local limited
  --- include: clock, limits, rooms, wake_for_place
end
