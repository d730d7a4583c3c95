-- How many jobs are in each state, and what comes next. Read-only.
-- Moves:   nothing.
-- Replies: {now, delayed, ready, reserved, failed, next due or -1, next lease end or -1, paused, format, pushed ... stats,
--          head record of each level's list and of what each name has parked, stats, limits, and of each
--          its number, how many jobs have a place under it, what its rate has seen or ''}.
-- Cost:    O(levels), and O(levels) a name with a limit. At the head of a ready list it passes by 5,000 entries that no longer count;
--          if no other is there, the first that counts of ten, at equal distances up to the last one, stands for the oldest.
--- include: call/clock
local paused, format, stale_entries, limits, max_length =
  unpack(redis.call('HMGET', meta, 'paused', 'format', 'stale_entries', 'limits', 'max_length'))
-- A client that knows of no length has taken it away with the limits: see `push/fits`.
-- without: a length is shown that nobody keeps
if not limits then max_length = nil end
-- with `-` for `redis.call('ZCARD', parked) -`: held back jobs are not counted
local waiting = redis.call('ZCARD', parked) - (tonumber(stale_entries or 0) or 0)
local some_stale = (tonumber(stale_entries or 0) or 0) > 0
-- The first entry that counts, as far as that is looked for.
local function first_of(list, level, length)
  if not some_stale then return redis.call('LINDEX', list, 0) end
  local at, passed = 0, {}
  while at < length and at < 5000 do
    local ids, fields = redis.call('LRANGE', list, at, at + 99), {}
    for k, id in ipairs(ids) do fields[k] = level .. ':' .. id end
    local stale_counts = redis.call('HMGET', stale, unpack(fields))
    for k, id in ipairs(ids) do
      -- with `do return id end`: behind a cancelled job nobody sees the oldest that waits
      if (passed[id] or 0) >= (tonumber(stale_counts[k] or 0) or 0) then return id end
      passed[id] = (passed[id] or 0) + 1
    end
    at = at + #ids
  end
  for k = 1, 10 do
    local id = redis.call('LINDEX', list, at + math.floor((length - 1 - at) * k / 10))
    -- with `if false then return id end`: behind a thousand cancelled jobs nobody sees that jobs wait
    if id and redis.call('HEXISTS', stale, level .. ':' .. id) == 0 then return id end
  end
end

local by_level = {}
local oldest = {}
for digit in string.gmatch(passed_levels, '%d') do
  local level = tonumber(digit)
  local length = redis.call('LLEN', ready(level))
  waiting = waiting + length
  by_level[level + 1] = length
  local id = length > 0 and first_of(ready(level), level, length)
  local record = id and redis.call('HGET', jobs, id)
  if record then
    oldest[#oldest + 1] = id
    oldest[#oldest + 1] = record
  end
end
local used = {}
if limits then
  local limited
  --- include: limits/limited, limits/usage
  for _, limit in ipairs(limited.list) do
    add_usage(used, limit)
    for digit in string.gmatch(passed_levels, '%d') do
      local id = limited.first_parked(limit.number, digit, 1)[1]
      local record = id and redis.call('HGET', jobs, id)
      if record then
        oldest[#oldest + 1] = id
        oldest[#oldest + 1] = record
      end
    end
  end
end
local next_due = redis.call('ZRANGE', delayed, 0, 0, 'WITHSCORES')[2]
local next_end = redis.call('ZRANGE', reserved, 0, 0, 'WITHSCORES')[2]
-- Totals only inform: a foreign value there is left out.
local totals = redis.pcall('HGETALL', stats)
return {
  string.format('%.0f', now), redis.call('ZCARD', delayed), waiting, redis.call('ZCARD', reserved),
  redis.call('ZCARD', failed), next_due or '-1', next_end or '-1', paused or '0', format or '0', by_level, oldest,
  totals.err and {} or totals, (limits or '') .. (max_length and '\nmax_length;' .. max_length or ''), used,
}
