-- Somebody must come back at `due`: needed unless a waiting worker has promised to come back by then (`timer`).
-- Needs: what `call/meta` and `call/clock` give, `wake_one`.
local function wake_for(due)
  local timer = tonumber(noted_timer or 0)
  -- with `wake_one()`: every delayed push wakes a worker
  -- without `timer <= now or`: a broken promise keeps workers asleep
  -- without `or due < timer`: a job that is due before the promised look starts late
  if timer <= now or due < timer then wake_one() end
end
