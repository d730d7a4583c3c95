-- Leases the jobs that were taken, and wakes another waiter if there is more to do than this one can.
-- Needs: what `take` gives. Gives: `reply`, whole.
redis.call('ZADD', reserved, unpack(ends))
--- if limited
if #place_pairs > 0 then redis.call('ZADD', places, unpack(place_pairs)) end
if limited and not left_behind then left_behind = limited.takeable() end
--- end
redis.call('HSET', leases, unpack(lease_pairs))
redis.call('HSET', meta, 'token', token)
reply[3] = token
-- Who promised to come back for the next due job is busy now: somebody else must.
local timer = tonumber(noted_timer or 0)
local gave_back = promise > 0 and timer == promise
if gave_back then
  redis.call('HDEL', meta, 'timer')
  timer = 0
end
local wake_next = left_behind
--- if limited
if limited then
  if queue_limit then limited.start(queue_limit, granted) end
  limited.charge_rates()
  -- Nobody can take what a limit holds back. Who frees a place wakes a waiter; but for the moment at which a rate lets the next
  -- one start, somebody must promise to come back.
  local opens = left_behind and now_us or limited.next_start()
  if queue_limit and limited.room(queue_limit) == 0 then opens = math.max(opens, limited.opens(queue_limit)) end
  wake_next = opens <= now_us or opens < math.huge and (timer <= now or math.ceil(opens / 1000) < timer)
end
--- end
if wait_ms > 0 and not wake_next then
  local next_due = redis.call('ZRANGE', delayed, '0', '0', 'WITHSCORES')[2]
  wake_next = next_due and (timer <= now or tonumber(next_due) < timer)
  -- Also for a lease of somebody else that ends before these: they are looked after as all new ones are.
  if gave_back and not wake_next then
    wake_next = tonumber(redis.call('ZRANGE', reserved, '0', '0', 'WITHSCORES')[2]) < tonumber(lease_end)
  end
end
if wake_next then
  --- include: wake_one
end
answer(settled .. ' ' .. token .. ' ' .. table.concat(granted_texts, '\n'))
