-- Leases the jobs that were taken, and wakes another waiter if there is more to do than this one can.
-- Needs: what `reserve/take`, `reserve/next_token`, `reserve/within_limits`, `call/meta` and `call/clock` give, `answer`,
-- `wake_one`, `settled`, `reply`. Gives: `left_behind`; the reply is whole.
redis.call('ZADD', reserved, unpack(ends))
--- if limited
-- without: a running job holds no place
if #place_pairs > 0 then redis.call('ZADD', places, unpack(place_pairs)) end
-- without: held back jobs whose name has places again are left and nobody is woken
if limited and not left_behind then left_behind = limited.takeable() end
--- end
redis.call('HSET', leases, unpack(lease_pairs))
redis.call('HSET', meta, 'token', token)
reply[3], reply[5] = token, behind_token
-- Who promised to come back for the next due job is busy now: somebody else must.
--- include: wake/promised
local timer = tonumber(noted_timer or 0)
local gave_back = promise > 0 and timer == promise
-- without 4 lines: the waiter that promised to come back is busy, and nobody else comes
if gave_back then
  redis.call('HDEL', meta, 'timer')
  timer = 0
end
local wake_next = left_behind
--- if limited
if limited then
  -- without: starts are not counted against the rate
  if queue_limit then limited.start(queue_limit, granted) end
  -- without: starts are not counted against the rate of their name
  limited.charge_rates()
  -- Nobody can take what a limit holds back. Who frees a place wakes a waiter; but for the moment at which a rate lets the next
  -- one start, somebody must promise to come back.
  -- with `math.huge` for `limited.next_start()`: nobody comes back when the rate of a name lets the next job start
  -- without `left_behind and now_us or`: jobs are left behind and nobody is woken
  local opens = left_behind and now_us or limited.next_start()
  -- without: workers are woken for jobs that no worker may take
  -- with `math.huge` for `math.max(opens, limited.opens(queue_limit))`: nobody comes back when the rate lets the next job start
  if queue_limit and limited.room(queue_limit) == 0 then opens = math.max(opens, limited.opens(queue_limit)) end
  -- without `and nobody_comes(timer, math.ceil(opens / 1000))`: workers are woken for a moment for which another one promised to come back
  wake_next = opens <= now_us or opens < math.huge and nobody_comes(timer, math.ceil(opens / 1000))
end
--- end
-- with `if false then`: nobody comes back for the next due job
if wait_ms > 0 and not wake_next then
  local next_due = redis.call('ZRANGE', delayed, '0', '0', 'WITHSCORES')[2]
  -- with `true` for `nobody_comes(timer, tonumber(next_due))`: a worker is woken though another comes back
  wake_next = next_due and nobody_comes(timer, tonumber(next_due))
  -- Also for a lease of somebody else that ends before these: they are looked after as all new ones are.
  -- with `if false then`: nobody comes back for the end of a dead worker's lease
  if gave_back and not wake_next then
    -- with `<= tonumber(lease_end)` for `< tonumber(lease_end)`: each worker that takes a job wakes another for its own lease
    wake_next = tonumber(redis.call('ZRANGE', reserved, '0', '0', 'WITHSCORES')[2]) < tonumber(lease_end)
  end
end
if wake_next then
  wake_one()
end
answer(settled .. ' ' .. token .. ' ' .. table.concat(granted_texts, '\n'))
