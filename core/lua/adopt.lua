-- Takes over jobs of another queue: one batch of a lane of the bridge, once, with the sequence of that batch.
-- Moves:   nothing -> ready | delayed | failed.
-- Replies: `adopted`, `known` (this batch is in), `behind <sequence>` (a later one of its lane is), `room <n>` (so many more jobs fit into
--          `failed`, and nothing was done); or `superseded`, `forgotten`, `format <n>`, `levels <list>`.
-- Cost:    O(log n) a job, at most 1,000 jobs a call.
--- include: call/once
if earlier then return earlier end
--- include: call/meta
-- without: jobs come into a queue of a newer format
if refused then return refused end
--- include: call/clock, wake/one, wake/at, history/events

-- The reads that fail on a foreign type come before the first write, so that nothing is stored by half.
-- without 3 lines: a foreign type under a key stores a batch by half
redis.call('HLEN', jobs)
redis.call('HLEN', returned)
redis.call('ZCARD', delayed)
-- without `redis.call('LLEN', ready(used))`: a foreign type under a list stores a batch by half
for used in string.gmatch(passed_levels, '%d') do redis.call('LLEN', ready(used)) end
local known = redis.call('HGET', adopted, lane)
-- It was sent again, perhaps by another program.
-- with `false` for `known == sequence`: a batch that was sent again is stored twice
if known == sequence then
  -- A newer server confirms at once to a connection that has written nothing, and the batch is deleted from the other server then.
  --- include: call/allow_growing
  -- without: a batch that is known is confirmed though no replica has it
  redis.call('HSET', adopted, lane, sequence)
  return 'known'
end
-- A late copy of an earlier batch, which is in.
-- without: a late copy of a batch stores it once more
if known and tonumber(known) > tonumber(sequence) then return 'behind ' .. known end

-- ARGV from first_item: (id, record, `ready` or `failed` or `@` and when it is due in ms, what came back with it or '') each.
local entering = 0
for i = first_item, #ARGV, 4 do
  if ARGV[i + 2] == 'failed' then entering = entering + 1 end
end
if entering > 0 then
  local room = tonumber(redis.call('HGET', meta, 'failed_max') or 10000) - redis.call('ZCARD', failed)
  -- They must not push others out.
  -- without 4 lines: failed jobs that come push out those that are there
  if entering > room then
    -- without: a server without memory does not say that there is no room
    --- include: call/allow_growing
    -- with `return 'room ' .. math.max(0, room)`: a late copy of a batch that had no room stores it beside the one that it became
    return answer('room ' .. math.max(0, room))
  end
end
local some_ready, earliest, some_large, stored = false, nil, false, 0
-- A server that dies may keep the first of these writes alone (`docs/servers.md`): nothing runs before the batch is known to be in.
local records = {}
for i = first_item, #ARGV, 4 do
  local id, record = ARGV[i], ARGV[i + 1]
  -- without: a job that comes over forgets how often it failed
  if ARGV[i + 3] ~= '' then redis.call('HSET', returned, id, ARGV[i + 3]) end
  if #record > LARGE then some_large = true end
  records[#records + 1] = id
  records[#records + 1] = record
end
redis.call('HSET', jobs, unpack(records))
-- without: a batch is stored by each bridge that finds it in flight
redis.call('HSET', adopted, lane, sequence)
for i = first_item, #ARGV, 4 do
  local id, target = ARGV[i], ARGV[i + 2]
  local due = tonumber(string.match(target, '^@(%d+)$'))
  if target == 'failed' then
    redis.call('ZADD', failed, now_text, id)
  -- without `and due > now`: a job that is due waits for a worker to promote it
  elseif due and due > now then
    redis.call('ZADD', delayed, string.format('%.0f', due), id)
    earliest = math.min(due, earliest or due)
  else
    redis.call('RPUSH', ready('5'), id)
    some_ready = true
  end
  stored = stored + 1
  happened('P', id, 1, (due and due > now and string.format('%.0f', due) or '') .. ';bridge')
end
--- include: push/pushed, history/keep
return answer('adopted')
