-- Somebody must come back at `due`: needed unless a waiting worker has promised to come back by then (`timer`).
-- Needs: what `call/meta` and `call/clock` give, `wake_one`. Gives: `wake_for`.
--- include: wake/promised
local function wake_for(due)
  -- with `wake_one()`: every delayed push wakes a worker
  if nobody_comes(tonumber(noted_timer or 0), due) then wake_one() end
end
