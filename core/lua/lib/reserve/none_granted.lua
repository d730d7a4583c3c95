-- Nothing was taken. The first waiter that sees the next moment promises to come back for it; the others wait for a wake.
-- Needs: what `reserve/within_limits`, `call/meta` and `call/clock` give, `answer`, `wake_one`, `settled`, `spares`, `paused`,
-- `is_kept`, `reply`. Gives: nothing; the reply is whole.
local next_due = redis.call('ZRANGE', delayed, '0', '0', 'WITHSCORES')[2]
local next_end = redis.call('ZRANGE', reserved, '0', '0', 'WITHSCORES')[2]
-- What is spared is looked after again in a second, until it is reclaimed.
-- without: whoever spares leases that are over comes back again and again without a pause
if spares and next_end then next_end = math.max(tonumber(next_end), now + 1000) end
--- if limited
local opens = math.huge
-- with `if asked > 0 and limited then`: a paused queue has its waiters come back for the rate of a name
if asked > 0 and limited and not paused then
  -- without: no waiter learns when the rate of a name lets the next job start
  opens = limited.next_start()
  if queue_limit and limited.room(queue_limit) == 0 then
    -- It holds back what is due and what is ready.
    local some_wait = next_due and tonumber(next_due) <= now
    -- without: waiters of a queue that a limit holds back turn in circles
    if some_wait then next_due = nil end
    for level in string.gmatch(levels, '%d') do some_wait = some_wait or redis.call('EXISTS', ready(level)) == 1 end
    -- without: no waiter learns when the rate lets the next job start
    -- without `or limited.takeable()`: no waiter learns when the rate lets a held back job start
    if some_wait or limited.takeable() then opens = now_us end
    -- without: a waiter comes back before the rate lets the next job start
    opens = math.max(opens, limited.opens(queue_limit))
  end
end
--- end
-- To the microsecond, or each wait would end up to a millisecond late; never early by the clock that decides.
local next_us = math.ceil(math.min(tonumber(next_due or math.huge), tonumber(next_end or math.huge))) * 1000
--- if limited
next_us = math.min(next_us, opens)
--- end
local next_at = math.ceil(next_us / 1000)
--- include: wake/promised
local timer = tonumber(noted_timer or 0)
if next_at < math.huge then
  -- with `(next_at - now) * 1000` for `next_us - now_us`: a waiter starts a job up to a millisecond late
  -- with `math.floor(next_at - now_us / 1000) * 1000` for `next_us - now_us`: a waiter comes back before the job is due, and goes round until it is
  reply[4] = math.max(0, next_us - now_us)
  -- without: a worker sleeps while more leases are over than one call takes back
  if reply[4] == 0 and not paused then reply[1] = 'unfinished' end
  -- with `if wait_ms > 0 then`: every waiter comes back at the next due time
  if wait_ms > 0 and (timer == promise or nobody_comes(timer, next_at)) then
    -- with `next_at` for `math.max(now + 1, math.min(next_at, now + wait_ms))`: a waiter promises to come back when it will be gone
    -- with `math.max(now,` for `math.max(now + 1,`: a promise for now, which nobody can keep
    local promised = math.max(now + 1, math.min(next_at, now + wait_ms))
    -- Refused when the server has no memory left: then nobody promises, and all come back by themselves.
    local noted = redis.pcall('HSET', meta, 'timer', string.format('%.0f', promised))
    if type(noted) == 'number' then reply[5] = promised end
  end
end
-- Who leaves, or has nothing left to come back for, takes the promise back: a push would count on it.
-- with `if false then`: a waiter that leaves takes its promise with it
if reply[5] == 0 and promise > 0 and timer == promise then
  redis.call('HDEL', meta, 'timer')
  if wait_ms == 0 then
    wake_one()
  end
end
--- if limited
-- with `if false then`: a worker that stops leaves its places empty for a second
if limited and asked == 0 and string.find(settled, '[12]') then
  --- include: limits/wake_for_place
end
--- end
if is_kept then
  -- without: a server without memory fails the reserve of a worker that lost its leases
  --- include: call/allow_growing
  -- without: outcomes that were handed along are refused when sent again
  answer(settled .. '  ')
end
