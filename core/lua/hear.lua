-- Removes the jobs whose hooks a worker has called, takes back those whose hooks it will not call, and hands out other unheard jobs of
-- `failed`, each to one worker for `claim_ms`.
-- Moves:   nothing.
-- Replies: {claimed until, how many more there are, id, record, note or '', id, ...}; or `format <n>`.
-- Cost:    O(log n) a job, at most 100 that go from `meta` to `unheard`, and `most` or `max_bytes` of records that are handed out.
local format = tonumber(redis.call('HGET', meta, 'format') or 1)
-- without: an old client writes into a queue of a newer format
if format > 2 then return string.format('format %.0f', format) end
redis.call('HLEN', jobs)
redis.call('ZCARD', failed)
redis.call('HLEN', returned)
redis.call('ZCARD', unheard)
--- include: clock, allow_growing

-- ARGV from first_item: (id, claimed until, `1` if it is heard, `0` if its hook still runs, or `-` if it is given back) each. Sent
-- twice, or behind the end of the claim: then the entry says another moment, and is another's.
local until_text = string.format('%.0f', now + claim_ms)
for at = first_item, #ARGV, 3 do
  local id = ARGV[at]
  -- with `do`: a claim that is another worker's by now is taken away, or one that never was is made
  if redis.call('ZSCORE', unheard, id) == ARGV[at + 1] then
    -- with `do`: a job whose hook died is never reported
    if ARGV[at + 2] == '1' then
      redis.call('ZREM', unheard, id)
    else
      -- without `ARGV[at + 2] == '-' and now_text or`: a worker that ends keeps its claims for 30 s
      redis.call('ZADD', unheard, ARGV[at + 2] == '-' and now_text or until_text, id)
    end
  end
end

--- include: unheard_line
if last > heard_to then
  local to = math.min(last, heard_to + 100)
  for number = heard_to + 1, to do
    local field = string.format('unheard:%.0f', number)
    local id = redis.call('HGET', meta, field)
    if id then
      redis.call('HDEL', meta, field)
      redis.call('ZADD', unheard, now_text, id)
    end
  end
  heard_to = to
  if to == last then
    redis.call('HDEL', meta, 'unheard_last', 'heard_to')
  else
    redis.call('HSET', meta, 'heard_to', string.format('%.0f', to))
  end
end

local reply = { until_text, 0 }
local bytes = 0
for _, id in ipairs(redis.call('ZRANGEBYSCORE', unheard, '-inf', now_text, 'LIMIT', 0, most)) do
  -- without `redis.call('ZSCORE', failed, id) and`: a job that was requeued is reported as failed
  local record = redis.call('ZSCORE', failed, id) and redis.call('HGET', jobs, id)
  if record then
    bytes = bytes + #record
    -- without: a hundred large records make one reply
    if bytes > max_bytes and #reply > 2 then break end
    redis.call('ZADD', unheard, until_text, id)
    reply[#reply + 1] = id
    reply[#reply + 1] = record
    reply[#reply + 1] = redis.call('HGET', returned, id) or ''
  else
    -- It has left `failed` meanwhile, and whoever took it away knows of it.
    -- without: what has left `failed` stays for ever
    redis.call('ZREM', unheard, id)
  end
end
reply[2] = redis.call('ZCOUNT', unheard, '-inf', now_text) + last - heard_to
return reply
