-- Sends failed jobs round again with a clean count.
-- Moves:   failed -> ready.
-- Replies: one line an id: `requeued`, `duplicate <id>` (its key belongs to another job now), `absent`, and `later` for all that are
--          behind 4 MiB of records; or `superseded`, `format <n>`, `levels <list>`.
-- Cost:    O(log n) a job, at most 1,000 a call.
--- include: once
if earlier then return earlier end
--- include: meta
if refused then return refused end
--- include: routing
-- The reads that fail on a foreign type come before the first write, so that no job is lost between two sets.
redis.call('HLEN', returned)
redis.call('HLEN', keys)
for used in string.gmatch(passed_levels, '%d') do redis.call('LLEN', ready(used)) end
local lines = {}
local requeued, bytes = 0, 0
for at = first_item, #ARGV do
  local id = ARGV[at]
  local record = bytes < 4194304 and redis.call('ZSCORE', failed, id) and redis.call('HGET', jobs, id)
  local line = bytes < 4194304 and 'absent' or 'later'
  if record then
    bytes = bytes + #record
    local level, _, key = routing(record)
    local holder = key and redis.call('HGET', keys, key)
    if holder and holder ~= id and redis.call('HEXISTS', jobs, holder) == 1 then
      line = 'duplicate ' .. holder
    else
      redis.call('ZREM', failed, id)
      redis.call('HDEL', returned, id)
      if key then redis.call('HSET', keys, key, id) end
      redis.call('RPUSH', ready(level), id)
      requeued = requeued + 1
      line = 'requeued'
    end
  end
  lines[#lines + 1] = line
end
if requeued > 0 then
  redis.pcall('HINCRBY', stats, 'requeued', requeued)
  do
    local left = requeued
    --- include: shorten_line
  end
  --- include: first_use, wake_one
else
  --- include: room_first
end
return answer(table.concat(lines, '\n'))
