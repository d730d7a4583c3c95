-- Nothing was taken. The first waiter that sees the next moment promises to come back for it; the others wait for a wake.
-- Needs: what `take` gives. Gives: `reply`, whole.
local next_due = redis.call('ZRANGE', delayed, '0', '0', 'WITHSCORES')[2]
local next_end = redis.call('ZRANGE', reserved, '0', '0', 'WITHSCORES')[2]
-- What is spared is looked after again in a second, until it is reclaimed.
if spares and next_end then next_end = math.max(tonumber(next_end), now + 1000) end
--- if limited
local opens = math.huge
if asked > 0 and limited and not paused then
  opens = limited.next_start()
  if queue_limit and limited.room(queue_limit) == 0 then
    -- It holds back what is due and what is ready.
    local some_wait = next_due and tonumber(next_due) <= now
    if some_wait then next_due = nil end
    for level in string.gmatch(levels, '%d') do some_wait = some_wait or redis.call('EXISTS', ready(level)) == 1 end
    if some_wait or limited.takeable() then opens = now_us end
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
local timer = tonumber(noted_timer or 0)
if next_at < math.huge then
  reply[4] = math.max(0, next_us - now_us)
  if wait_ms > 0 and (timer <= now or timer == promise or next_at < timer) then
    local promised = math.max(now + 1, math.min(next_at, now + wait_ms))
    -- Refused when the server has no memory left: then nobody promises, and all come back by themselves.
    local noted = redis.pcall('HSET', meta, 'timer', string.format('%.0f', promised))
    if type(noted) == 'number' then reply[5] = promised end
  end
end
-- Who leaves, or has nothing left to come back for, takes the promise back: a push would count on it.
if reply[5] == 0 and promise > 0 and timer == promise then
  redis.call('HDEL', meta, 'timer')
  if wait_ms == 0 then
    --- include: wake_one
  end
end
--- if limited
if limited and asked == 0 and string.find(settled, '[12]') then
  --- include: wake_for_place
end
--- end
if is_kept then
  --- include: room_first
  answer(settled .. '  ')
end
