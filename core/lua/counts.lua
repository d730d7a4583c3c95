-- How many jobs are in each state, and what comes next. Read-only.
-- Moves:   nothing.
-- Replies: {now, delayed, ready, reserved, failed, next due or -1, next lease end or -1, paused, format, pushed ... stats,
--          head record of each level's list and of what each name has parked, stats, limits, and of each
--          its number, how many jobs have a place under it, what its rate has seen or ''}.
-- Cost:    O(levels), and O(levels) a name with a limit.
--- include: call/clock
local paused, format, stale_entries, limits = unpack(redis.call('HMGET', meta, 'paused', 'format', 'stale_entries', 'limits'))
-- with `-` for `redis.call('ZCARD', parked) -`: held back jobs are not counted
local waiting = redis.call('ZCARD', parked) - tonumber(stale_entries or 0)
local by_level = {}
local oldest = {}
for digit in string.gmatch(passed_levels, '%d') do
  local level = tonumber(digit)
  local length = redis.call('LLEN', ready(level))
  waiting = waiting + length
  by_level[level + 1] = length
  local id = length > 0 and redis.call('LINDEX', ready(level), 0)
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
  totals.err and {} or totals, limits or '', used,
}
