-- A job has let its place go, and no other was taken in this call.
-- Needs: what `meta` gives, `wake_one`.
if limits then
  local limited
  --- include: clock, limits, left_by_limits, wake_for_place
end
