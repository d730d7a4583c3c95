-- Removes the jobs whose hooks a worker has called, takes back those whose hooks it will not call, and hands out other unheard jobs of
-- `failed`, each to one worker for `claim_ms`.
-- Moves:   nothing.
-- Replies: {claimed until, how many more can be had at once, {ids that no hook is called for any more}, id, record, note or '', id, ...};
--          or `superseded`, `forgotten`, `format <n>`.
-- Cost:    O(log n) a job, at most 100 that go from `meta` to `unheard`, and `most` or `max_bytes` of records that are handed out.
local noted_format = redis.call('HGET', meta, 'format')
--- include: call/newer_format
redis.call('HLEN', jobs)
redis.call('ZCARD', failed)
redis.call('HLEN', returned)
redis.call('ZCARD', unheard)
--- include: call/once, call/clock, failed/unheard_line
local MOST_ENDS = 3
local function is_given_up(ends) return tonumber(ends) >= MOST_ENDS end
local given_up = {}
local reply = { '', 0, given_up }
local function give(id, record)
  reply[#reply + 1] = id
  reply[#reply + 1] = record
  reply[#reply + 1] = redis.call('HGET', returned, id) or ''
end
-- without `redis.call('ZSCORE', failed, id) and`: a job that was requeued is reported as failed
local function failed_record(id) return redis.call('ZSCORE', failed, id) and redis.call('HGET', jobs, id) end
local function count_more() reply[2] = redis.call('ZCOUNT', unheard, '-inf', '0') + last - heard_to end

-- Who has not had the answer has these claims, as far as they have not ended meanwhile: `<claimed until>\n<id>...`.
if earlier then
  local until_then, ids = string.match(earlier, '^(%d+)(.*)$')
  -- with `do return earlier end`: a lost reply counts as the end of a process, and hooks are called 30 s later
  if not until_then then return earlier end
  reply[1] = until_then
  for id in string.gmatch(ids, '[^\n]+') do
    -- with `failed_record(id)` for `redis.call('ZSCORE', unheard, id) == until_then and failed_record(id)`: a call that is sent again gives what another worker has claimed
    local record = redis.call('ZSCORE', unheard, id) == until_then and failed_record(id)
    if record and is_given_up(redis.call('HGET', meta, 'ended:' .. id) or 0) then
      given_up[#given_up + 1] = id
    elseif record then
      give(id, record)
    end
  end
  count_more()
  return reply
end
--- include: call/allow_growing

-- ARGV from first_item: (id, claimed until, `1` if it is heard, `0` if its hook still runs, or `-` if it is given back) each. Sent
-- twice, or behind the end of the claim: then the entry says another moment, and is another's. What is free has the moment 0.
local CLAIMS_IT_WAITS = 10
local until_text = string.format('%.0f', now + claim_ms)
local claims = { until_text }
reply[1] = until_text
local is_busy = false
local function forget(id)
  redis.call('ZREM', unheard, id)
  -- without: how often a claim has ended stays for ever
  redis.call('HDEL', meta, 'ended:' .. id)
end
for at = first_item, #ARGV, 3 do
  local id = ARGV[at]
  -- with `do`: a claim that is another worker's by now is taken away, or one that never was is made
  if redis.call('ZSCORE', unheard, id) == ARGV[at + 1] then
    -- with `true` for `ARGV[at + 2] == '1'`: a job whose hook died is never reported
    if ARGV[at + 2] == '1' then
      forget(id)
    else
      -- without `ARGV[at + 2] == '-' and '0' or`: a worker that ends keeps its claims for 30 s
      redis.call('ZADD', unheard, ARGV[at + 2] == '-' and '0' or until_text, id)
    end
  end
  is_busy = is_busy or ARGV[at + 2] == '0'
end

if last > heard_to then
  local to = math.min(last, heard_to + 100)
  for number = heard_to + 1, to do
    local field = string.format('unheard:%.0f', number)
    local id = redis.call('HGET', meta, field)
    if id then
      redis.call('ZADD', unheard, '0', id)
      redis.call('HDEL', meta, field)
    end
  end
  heard_to = to
  if to == last then
    redis.call('HDEL', meta, 'unheard_last', 'heard_to')
  else
    redis.call('HSET', meta, 'heard_to', string.format('%.0f', to))
  end
end

local bytes = 0
local function claim(id)
  redis.call('ZADD', unheard, until_text, id)
  claims[#claims + 1] = id
end
-- A claim that ended without a word: perhaps the hook of that job ends its process, with all that runs there. It is claimed alone, so that
-- no other is held responsible, and the third time no hook is called for it: the worker says so, and that it has. It comes before what is
-- free, and beside what this worker still calls when no worker had nothing else to do for so long: it would wait for ever else.
-- with `now_text` for `is_busy and string.format('%.0f', now - CLAIMS_IT_WAITS * claim_ms) or now_text`: hooks are held responsible for the end of another one's process
local over = is_busy and string.format('%.0f', now - CLAIMS_IT_WAITS * claim_ms) or now_text
-- with `true` for `most > 0`: a worker that stops claims jobs
if most > 0 then
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', unheard, '(0', over, 'LIMIT', 0, 100)) do
    local record = failed_record(id)
    if not record then
      -- without: what has left `failed` while it was claimed stays for ever
      forget(id)
    elseif is_given_up(redis.call('HINCRBY', meta, 'ended:' .. id, 1)) then
      -- with `forget(id)`: a worker that dies with the word that its hooks are given up leaves nobody to say it
      claim(id)
      given_up[#given_up + 1] = id
    else
      claim(id)
      give(id, record)
      break
    end
  end
end
-- without `#reply > 3 and 0 or`: hooks are held responsible for the end of another one's process
local may_take = #reply > 3 and 0 or most
for _, id in ipairs(redis.call('ZRANGEBYSCORE', unheard, '-inf', '0', 'LIMIT', 0, may_take)) do
  local record = failed_record(id)
  if record then
    bytes = bytes + #record
    -- without: a hundred large records make one reply
    if bytes > max_bytes and #reply > 3 then break end
    claim(id)
    give(id, record)
  else
    -- It has left `failed` meanwhile, and whoever took it away knows of it.
    -- without: what has left `failed` stays for ever
    forget(id)
  end
end
count_more()
answer(table.concat(claims, '\n'))
return reply
