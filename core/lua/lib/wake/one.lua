-- Wakes one waiting worker. The list holds at most two elements (one for what is ready, one for a new earliest due time), so
-- a burst of pushes wakes two at the most; who takes a batch wakes the next if it left jobs behind. A wake-up is a hint:
-- it must not fail the verb that gives it. Gives: `wake_one`.
local function wake_one()
  -- with `redis.call('LLEN', wake)` for `redis.pcall('LLEN', wake)`: a foreign type under `wake` fails every push
  local waking = redis.pcall('LLEN', wake)
  -- with `true` for `waking < 2`: the wake list grows with every push
  -- without `type(waking) == 'number' and`: a foreign type under `wake` fails every push
  if type(waking) == 'number' and waking < 2 then redis.pcall('LPUSH', wake, '1') end
end
