-- Takes back leases that are over, at most `reclaim_cap`. Goes to the head of its ready list: it is older than what waits there.
-- Adds to `reply`, where jobs failed for whose results somebody may wait, a list of none, one of their ids, and 0; and says
-- there whether it stopped before its cap.
-- Needs: what `call/meta` and `back/coming_back` give, `ended`, `reply`, except in the plain text what `history/events` gives. Gives: nothing but that.
--- include: reserve/ahead, back/lease_ended, job/keeps_result, job/fitting
-- The rest is there for the next call. A hundred of those that nobody noted as large are not too much.
-- with `if noted_large then`: a thousand dead workers' jobs are read in one call, ten times as much as one may read
if noted_large or #ended > 100 then
  -- with `#ended` for `count_fitting(ended, 4194304)`: the large records of a hundred dead workers' jobs are read in one call
  for k = #ended, count_fitting(ended, 4194304) + 1, -1 do
    ended[k], reply.is_cut = nil, true
  end
end
-- with `redis.pcall` for `redis.call`: a foreign type under `leases` loses the jobs that were taken back
local tokens = redis.call('HMGET', leases, unpack(ended))
redis.call('ZREM', reserved, unpack(ended))
-- without: a worker that lost its lease acks the job
redis.call('HDEL', leases, unpack(ended))
local gave_up, awaited = 0, {}
-- with `for i = 1, #ended do`: the job that waited longest goes last
for i = #ended, 1, -1 do
  local id = ended[i]
  --- if limited
  local number = limits and redis.call('ZSCORE', places, id)
  -- without: a worker that died keeps its places for ever
  if number then redis.call('ZREM', places, id) end
  --- end
  local record = redis.call('HGET', jobs, id)
  -- with `true` for `record`: a lease without a record stops every reserve
  if record then
    local level, max_retries, key = routing(record)
    --- if limited
    happened('L', id, 1)
    --- end
    local has_failed, err = lease_ended(id, tokens[i], max_retries, record)
    if has_failed then
      --- if limited
      happened('F', id, 1, '-;;' .. said_of(err or ''))
      --- end
      enter_failed(id, key)
      -- without: a job that killed its last worker fails in silence
      note_unheard(id)
      gave_up = gave_up + 1
      -- without: who waits for a job whose worker died hears of it a second late
      if keeps_result(record) then awaited[#awaited + 1] = id end
    else
      --- if limited
      to_head(id, level, number)
      --- else
      to_head(id, level)
      --- end
    end
  else
    redis.call('HDEL', returned, id)
  end
end
redis.pcall('HINCRBY', stats, 'reclaimed', #ended)
if gave_up > 0 then
  redis.pcall('HINCRBY', stats, 'failed', gave_up)
  trim_failed(gave_up)
  if #awaited > 0 then
    reply[#reply + 1] = {}
    reply[#reply + 1] = awaited
    reply[#reply + 1] = 0
  end
end
