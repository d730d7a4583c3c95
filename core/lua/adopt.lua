-- Takes over jobs of another queue: one batch of a lane of the bridge, once, with the sequence of that batch.
-- Moves:   nothing -> ready | delayed | failed.
-- Replies: `adopted`, `known` (this batch is in), `behind <sequence>` (a later one of its lane is), `room <n>` (so many more jobs fit into
--          `failed`, and nothing was done); or `superseded`, `format <n>`, `levels <list>`.
-- Cost:    O(log n) a job, at most 1,000 jobs a call.
--- include: once
if earlier then return earlier end
--- include: meta
if refused then return refused end
--- include: clock, wake

-- The reads that fail on a foreign type come before the first write, so that nothing is stored by half.
redis.call('ZCARD', delayed)
redis.call('HLEN', returned)
for used in string.gmatch(passed_levels, '%d') do redis.call('LLEN', ready(used)) end
local known = redis.call('HGET', adopted, lane)
-- It was sent again, perhaps by another program.
if known == sequence then return 'known' end
-- A late copy of an earlier batch, which is in.
if known and tonumber(known) > tonumber(sequence) then return 'behind ' .. known end

-- ARGV from first_item: (id, record, `ready` or `failed` or `@` and when it is due in ms, what came back with it or '') each.
local entering = 0
for i = first_item, #ARGV, 4 do
  if ARGV[i + 2] == 'failed' then entering = entering + 1 end
end
if entering > 0 then
  local room = tonumber(redis.call('HGET', meta, 'failed_max') or 10000) - redis.call('ZCARD', failed)
  -- They must not push others out.
  if entering > room then return string.format('room %.0f', math.max(0, room)) end
end
local some_ready, earliest, some_large, count = false, nil, false, 0
for i = first_item, #ARGV, 4 do
  local id, record, place = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  redis.call('HSET', jobs, id, record)
  if ARGV[i + 3] ~= '' then redis.call('HSET', returned, id, ARGV[i + 3]) end
  if #record > LARGE then some_large = true end
  local due = tonumber(string.match(place, '^@(%d+)$'))
  if place == 'failed' then
    redis.call('ZADD', failed, now_text, id)
  elseif due and due > now then
    redis.call('ZADD', delayed, string.format('%.0f', due), id)
    earliest = math.min(due, earliest or due)
  else
    redis.call('RPUSH', ready('5'), id)
    some_ready = true
  end
  count = count + 1
end
redis.call('HSET', adopted, lane, sequence)
--- include: first_use
if some_large and not noted_large then redis.call('HSET', meta, 'large', '1') end
if some_ready then wake_one() end
if earliest then wake_for(earliest) end
redis.pcall('HINCRBY', stats, 'pushed', count)
return answer('adopted')
