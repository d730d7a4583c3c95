-- Wakes whoever waits for the result of a job that ended without one, by an element in the job's own list. It is a hint, as every
-- wake-up: it must not fail the verb, and who misses it looks again within a second.
-- Gives: `wake_waiters`.
local function wake_waiters(list, ms)
  -- without: a wake-up that something else wrote over wakes nobody
  redis.pcall('DEL', list)
  redis.pcall('LPUSH', list, '1')
  -- without: wake-ups for waiters stay for ever
  redis.pcall('PEXPIRE', list, ms)
end
