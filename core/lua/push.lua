-- Stores new jobs that have new ids and no keys, all in one priority level and with one due time.
-- Moves:   nothing -> delayed | ready.
-- Replies: `created`; `queue_full <length> <how many fit>` if not all of them fit, and none is stored; or `superseded`, `forgotten`, `format <n>`, `levels <list>`.
-- Cost:    O(1) a ready job, O(log n) a delayed one; at most 1,000 jobs a call.
--- include: call/once
-- without: a push sent again puts the jobs in twice
if earlier then return earlier end
--- include: call/meta
-- without: jobs are pushed into levels and formats that others do not see
if refused then return refused end

-- ARGV from first_item: (id, record) each.
local last_item = #ARGV
-- with `if false then`: a push that the server has forgotten runs a job twice at once
if call_renew ~= '0' then
  -- Perhaps sent again, and its memory is gone since the server's clock jumped: what is in stays as it is.
  local kept = first_item - 1
  for i = first_item, last_item, 2 do
    -- with `if false then`: of a batch that the server has forgotten in part, the rest is lost
    if redis.call('HEXISTS', jobs, ARGV[i]) == 0 then
      ARGV[kept + 1], ARGV[kept + 2] = ARGV[i], ARGV[i + 1]
      kept = kept + 2
    end
  end
  last_item = kept
  -- with `if false then`: a push that the server has forgotten is refused
  if last_item < first_item then
    --- include: call/allow_growing
    return answer('created')
  end
end
--- if limited
--- include: push/fits
-- What a forgotten call had stored it had room for.
-- without 4 lines: a queue grows beyond its length
-- without `and last_item == #ARGV`: of a push that the server has forgotten in part, and that is in, its caller hears that it is not
if room_left and last_item == #ARGV and (last_item - first_item + 1) / 2 > room_left then
  --- include: call/allow_growing
  return answer('queue_full ' .. noted_max_length .. ' ' .. room_left)
end
--- include: history/events
--- end
local entries = {}
local at
if due ~= '' then
  --- include: call/clock, push/due, job/delayed_member, wake/promised
  at = due_of(due)
  -- without: every delayed push wakes a worker
  if at and not nobody_comes(tonumber(noted_timer or 0), at) then wake = nil end
  local at_text = string.format('%.0f', at or 0)
  for i = first_item, at and last_item or 0, 2 do
    entries[#entries + 1] = at_text
    entries[#entries + 1] = delayed_member(ARGV[i], level)
  end
end
if not at then
  for i = first_item, last_item, 2 do entries[#entries + 1] = ARGV[i] end
end

-- None is new: a late copy, or one whose durability is waited for, of a call whose memory is gone.
-- with `< 0` for `== 0`: a late copy of a push that the server has forgotten runs a job twice at once
if redis.call('HSET', jobs, unpack(ARGV, first_item, last_item)) == 0 then return answer('created') end
local added
if at then
  added = redis.pcall('ZADD', delayed, unpack(entries))
else
  added = redis.pcall('RPUSH', ready(level), unpack(entries))
end
if type(added) == 'table' then
  -- A foreign type under our key: nothing is stored by half.
  -- without: a foreign type under a list leaves records that nobody hands out
  for i = first_item, last_item, 2 do redis.call('HDEL', jobs, ARGV[i]) end
  return added
end
--- include: call/first_use
if wake then
  --- include: wake/one
  wake_one()
end
--- if limited
if events then
  local ids = entries
  if at then
    ids = {}
    for i = first_item, last_item, 2 do ids[#ids + 1] = ARGV[i] end
  end
  happened('P', table.concat(ids, '\n'), #ids, (at and string.format('%.0f', at) or '') .. ';')
  --- include: call/clock, history/keep
end
--- end
redis.pcall('HINCRBY', stats, 'pushed', (last_item - first_item + 1) / 2)
return answer('created')
