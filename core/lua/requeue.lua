-- Sends failed jobs round again with a clean count; one may get a new record for one that is known, which is only for that one.
-- Moves:   failed -> ready.
-- Replies: one line an id: `requeued`, `duplicate <id>` (its key belongs to another job now), `absent`, and `later` for all that are
--          behind 4 MiB of records; or `superseded`, `forgotten`, `format <n>`, `levels <list>`.
-- Cost:    O(log n) a job, at most 1,000 a call.
--- include: call/once
-- without: a requeue sent again requeues the job that failed again since
if earlier then return earlier end
--- include: call/meta
-- without: jobs are requeued into levels and formats that the caller does not know
if refused then return refused end
--- include: job/routing, job/expiry, history/events
-- The reads that fail on a foreign type come before the first write, so that no job is lost between two sets.
-- without: a foreign type under `returned` loses the requeued jobs
redis.call('HLEN', returned)
-- without: a foreign type under `keys` fails a requeue by half
redis.call('HLEN', keys)
-- without `redis.call('LLEN', ready(used))`: a foreign type under a list loses the requeued jobs
for used in string.gmatch(passed_levels, '%d') do redis.call('LLEN', ready(used)) end
local lines = {}
local requeued, bytes = 0, 0
for at = first_item, #ARGV do
  local id = ARGV[at]
  -- without `'ZSCORE', failed, id) and redis.call(`: requeueing a job that has not failed puts it in twice
  local record = bytes < 4194304 and redis.call('ZSCORE', failed, id) and redis.call('HGET', jobs, id)
  local line = bytes < 4194304 and 'absent' or 'later'
  -- with `if false then`: a job that is another one by now gets data of the one before
  if new_record ~= '' and record ~= known_record then
    record = nil
  end
  if record then
    -- without: a requeue reads any number of large records
    bytes = bytes + #record
    local level, _, key = routing(record)
    local holder = key and redis.call('HGET', keys, key)
    -- with `if false and` for `if holder and holder ~= id and`: requeueing makes two live jobs of one key
    -- without `and redis.call('HEXISTS', jobs, holder) == 1`: a key whose job is gone keeps a failed one from being requeued
    if holder and holder ~= id and redis.call('HEXISTS', jobs, holder) == 1 then
      line = 'duplicate ' .. holder
    else
      if new_record ~= '' then
        -- First: a server without memory refuses it, and the job stays as it is.
        redis.call('HSET', jobs, id, new_record)
        -- without: what an operator has made large stops every reserve
        if #new_record > LARGE and not noted_large then redis.call('HSET', meta, 'large', '1') end
      end
      redis.call('ZREM', failed, id)
      redis.call('HDEL', returned, id)
      -- What was run again by hand has begun before.
      -- without: a job that expires is dropped when it is run again
      if expiry_of(record) then redis.call('HSET', returned, id, '0;1;') end
      if key then redis.call('HSET', keys, key, id) end
      redis.call('RPUSH', ready(level), id)
      requeued = requeued + 1
      happened('N', id, 1)
      line = 'requeued'
    end
  end
  lines[#lines + 1] = line
end
if requeued > 0 then
  redis.pcall('HINCRBY', stats, 'requeued', requeued)
  do
    local left = requeued
    --- include: failed/shorten_line
  end
  --- include: call/first_use, wake/one
  wake_one()
else
  --- include: call/allow_growing
end
if events then
  --- include: call/clock, history/keep
end
-- with `return requeued > 0 and answer(table.concat(lines, '\n')) or table.concat(lines, '\n')`: a late copy requeues the job that failed since
return answer(table.concat(lines, '\n'))
