-- Removes jobs of one state, the oldest first, at most `cap`; called again until nothing is left.
-- Moves:   delayed | ready | failed -> gone.
-- Replies: `<removed> <entries looked at>`, and a line with the id of each removed job for whose result somebody may wait;
--          or `superseded`, `format <n>`, `levels <list>`.
-- Cost:    O(log n) a job, at most `cap`, or 4 MiB of records.
--- include: once
-- without: a purge sent again removes the jobs that came since
if earlier then return earlier end
--- include: meta
-- without: an old client writes into a queue of a newer format
if refused then return refused end
--- include: routing, stale, keeps_result, fitting
-- A foreign type under one of our keys stops it before the first write.
-- without: a foreign type under `jobs` loses the purged jobs' places
redis.call('HLEN', jobs)
-- without: a foreign type under `returned` leaves records that nobody hands out
redis.call('HLEN', returned)
-- without: a foreign type under `keys` leaves records that nobody hands out
redis.call('HLEN', keys)
-- without: a foreign type under `stale` leaves records that nobody hands out
redis.call('HLEN', stale)
-- without `redis.call('LLEN', ready(level))`: a foreign type under a list fails a purge by half
for level in string.gmatch(levels, '%d') do redis.call('LLEN', ready(level)) end
--- if limited
-- without: a foreign type under `parked` purges by half
if limits then redis.call('ZCARD', parked) end
--- end

-- Records are read for their keys and for who waits for their results, not more bytes of them than one call may read.
local bytes_left, is_cut = 4194304, false
local function cut(entries, ids)
  if not noted_large then return end
  local fitting
  fitting, bytes_left = count_fitting(ids or entries, bytes_left)
  for k = #entries, fitting + 1, -1 do
    -- with `is_cut = true`: a purge reads any number of large records
    entries[k], is_cut = nil, true
  end
end

local awaited = {}
local function forget(ids)
  local records = redis.call('HMGET', jobs, unpack(ids))
  for i, record in ipairs(records) do
    if record then
      local _, _, key = routing(record)
      -- without `and redis.call('HGET', keys, key) == ids[i]`: purging failed jobs frees a key that a live job holds
      if key and redis.call('HGET', keys, key) == ids[i] then redis.call('HDEL', keys, key) end
      -- without: who waits for a purged job hears of it a second later
      if keeps_result(record) then awaited[#awaited + 1] = '\n' .. ids[i] end
    end
  end
  redis.call('HDEL', returned, unpack(ids))
  local removed = redis.call('HDEL', jobs, unpack(ids))
  if removed > 0 then redis.pcall('HINCRBY', stats, 'purged', removed) end
  return removed
end

local removed, seen = 0, 0
if state == 'ready' then
  for level in string.gmatch(levels, '%d') do
    -- with `ready(level), 0, cap - 1)` for `ready(level), 0, cap - seen - 1)`: a purge removes more than its cap
    local entries = redis.call('LRANGE', ready(level), 0, cap - seen - 1)
    cut(entries)
    if #entries > 0 then
      seen = seen + #entries
      redis.call('LTRIM', ready(level), #entries, -1)
      local ids = {}
      for _, id in ipairs(entries) do
        -- with `ids[#ids + 1] = id`: purging ready jobs removes one that has been rescheduled
        if not skip_stale(level, id) then ids[#ids + 1] = id end
      end
      if #ids > 0 then removed = removed + forget(ids) end
    end
    -- with `if seen >= cap then break end`: a purge that has read enough reads on in each other level
    if seen >= cap or is_cut then break end
  end
  --- if limited
  -- with `parked, 0, cap - 1)` for `parked, 0, cap - seen - 1)`: a purge removes more than its cap
  local parked_ids = limits and seen < cap and not is_cut and redis.call('ZRANGE', parked, 0, cap - seen - 1) or {}
  cut(parked_ids)
  if #parked_ids > 0 then
    seen = seen + #parked_ids
    -- without: purged jobs that were held back leave their entries
    redis.call('ZREM', parked, unpack(parked_ids))
    removed = removed + forget(parked_ids)
  end
  --- end
else
  local set = state == 'delayed' and delayed or failed
  local members = redis.call('ZRANGE', set, 0, cap - 1)
  local ids = {}
  for i, member in ipairs(members) do
    -- A tab in a member is the level's mark; `failed` has plain ids, and an id holds no tab.
    ids[i] = string.match(member, '^[^\t]*')
  end
  cut(members, ids)
  seen = #members
  if seen > 0 then
    redis.call('ZREM', set, unpack(members))
    removed = forget({ unpack(ids, 1, seen) })
    if state == 'failed' then
      local left = seen
      --- include: shorten_line
    end
  end
end
local reply = string.format('%.0f %.0f', removed, seen) .. table.concat(awaited)
if seen == 0 then
  --- include: allow_growing
end
-- with `return seen > 0 and answer(reply) or reply`: a late copy of a purge removes the jobs that came since
return answer(reply)
