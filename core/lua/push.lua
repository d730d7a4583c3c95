-- Stores new jobs that have new ids and no keys, all in one priority level and with one due time.
-- Moves:   nothing -> delayed | ready.
-- Replies: `created`; or `superseded`, `format <n>`, `levels <list>`.
-- Cost:    O(1) a ready job, O(log n) a delayed one; at most 1,000 jobs a call.
--- include: clock, once, meta, first_use, due, routing, wake
local earlier = answer_of_earlier_send()
if earlier then return earlier end
local refused = refusal()
if refused then return refused end

-- ARGV from first_item: (id, record) each.
local last_item = #ARGV
local at = due_of(due)
local place = {}
if at then
  for i = first_item, last_item, 2 do
    place[#place + 1] = at
    place[#place + 1] = delayed_member(ARGV[i], level)
  end
else
  for i = first_item, last_item, 2 do place[#place + 1] = ARGV[i] end
end

redis.call('HSET', jobs, unpack(ARGV, first_item, last_item))
local placed
if at then
  placed = redis.pcall('ZADD', delayed, unpack(place))
else
  placed = redis.pcall('RPUSH', ready(level), unpack(place))
end
if type(placed) == 'table' then
  -- A foreign type under our key: nothing is stored by half.
  for i = first_item, last_item, 2 do redis.call('HDEL', jobs, ARGV[i]) end
  return placed
end
note_levels()
if at then wake_for(at) else wake_one() end
redis.pcall('HINCRBY', stats, 'pushed', (last_item - first_item + 1) / 2)
return answer('created')
