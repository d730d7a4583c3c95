-- A job has let its place go, and no other was taken in this call.
-- Needs: what `call/meta` gives, `wake_one`.
if limits then
  local limited
  --- include: call/clock, limits/limited, limits/left, limits/wake_for_place
end
