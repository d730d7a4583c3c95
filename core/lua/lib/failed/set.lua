-- `failed` is bounded by count and by age. A call in which jobs entered lets a hundred of the oldest go at most, or as many as
-- entered if these are more: else a queue that fails by the thousand would outgrow its bound.
-- Needs: what `call/clock` gives, except in the plain text what `history/events` gives. Gives: `trim_failed`, `free_key`, `enter_failed`.
local TRIM_CAP = 100

local function forget_failed(ids)
  redis.call('ZREM', failed, unpack(ids))
  redis.call('HDEL', jobs, unpack(ids))
  redis.call('HDEL', returned, unpack(ids))
  redis.pcall('HINCRBY', stats, 'trimmed', #ids)
  --- if limited
  happened('Z', table.concat(ids, '\n'), #ids)
  --- end
end

local function trim_failed(entered)
  -- with `TRIM_CAP` for `math.max(TRIM_CAP, entered)`: jobs that fail by the thousand outgrow the bound
  local cap = math.max(TRIM_CAP, entered)
  local most, age_ms = unpack(redis.call('HMGET', meta, 'failed_max', 'failed_age_ms'))
  local surplus = redis.call('ZCARD', failed) - tonumber(most or 10000)
  -- with `do`: jobs within the limit are trimmed
  if surplus > 0 then
    -- with `surplus` for `math.min(surplus, cap)`: one failure trims a backlog of any size
    forget_failed(redis.call('ZRANGE', failed, 0, math.min(surplus, cap) - 1))
  end
  local oldest = now - tonumber(age_ms or 15552000000)
  -- without `, 'LIMIT', 0, cap`: one failure trims a backlog of any size
  local aged = redis.call('ZRANGEBYSCORE', failed, '-inf', oldest, 'LIMIT', 0, cap)
  if #aged > 0 then forget_failed(aged) end
end

-- A failed job gives its key free: a key means one live job, and must not be dead until somebody cleans up.
local function free_key(key, id)
  -- without `and redis.call('HGET', keys, key) == id`: a failed job frees a key that another job holds
  if key and key ~= '' and redis.call('HGET', keys, key) == id then redis.call('HDEL', keys, key) end
end

local function enter_failed(id, key)
  local last = tonumber(redis.call('ZRANGE', failed, -1, -1, 'WITHSCORES')[2] or 0)
  -- While the clock is behind, as after a failover: as late as the last one, or it would be the first to go. A day at the most: what another
  -- program has put there is not followed.
  -- with `false` for `last > now`: where the clock was set back, new failures go before older ones
  local at = last > now and last < now + 86400000 and string.format('%.0f', last) or now_text
  redis.call('ZADD', failed, at, id)
  -- without: a failed job blocks its key
  free_key(key, id)
end
