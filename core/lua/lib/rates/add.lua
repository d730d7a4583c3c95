-- Adds what a worker has counted since its last beat to what is kept of this minute, of these ten minutes and of all time, and
-- forgets minutes that are older than eight hours, and ten minutes that are older than three days or beyond four megabytes.
-- Needs: what `call/clock` gives, `rates`, `first_item`. Gives: nothing.
-- A tally is `<sums with spaces between them>;<bucket>:<count>,...;<bucket>:<count>,...`.
local function added(one, other)
  local sums, waits, runs = string.match(one, '^([%d ]+);([%d:,]*);([%d:,]*)$')
  -- What a stranger wrote counts for nothing.
  if not sums then return other end
  local more_sums, more_waits, more_runs = string.match(other, '^([%d ]+);([%d:,]*);([%d:,]*)$')
  if not more_sums then return one end
  local all, next_more = {}, string.gmatch(more_sums, '%d+')
  for sum in string.gmatch(sums, '%d+') do
    all[#all + 1] = string.format('%.0f', tonumber(sum) + tonumber(next_more() or 0))
  end
  local function counts_of(text, more)
    local counts, order = {}, {}
    for _, pairs_of in ipairs({ text, more }) do
      for bucket, count in string.gmatch(pairs_of, '(%d+):(%d+)') do
        if not counts[bucket] then order[#order + 1] = bucket end
        counts[bucket] = (counts[bucket] or 0) + tonumber(count)
      end
    end
    for k, bucket in ipairs(order) do order[k] = string.format('%s:%.0f', bucket, counts[bucket]) end
    return table.concat(order, ',')
  end
  return table.concat(all, ' ') .. ';' .. counts_of(waits, more_waits) .. ';' .. counts_of(runs, more_runs)
end

local minute, ten = math.floor(now / 60000), math.floor(now / 600000)
local kept = redis.pcall('HMGET', rates, 'minute', 'ten', 'bytes')
-- with `if true then`: a foreign type under this key leaves a worker without its beat
if not kept.err then
  -- With a clock that was set back, what is later stays until its time comes.
  local first_minute = math.min(tonumber(kept[1]) or minute, minute)
  local first_ten = math.min(tonumber(kept[2]) or ten, ten)
  local bytes = tonumber(kept[3]) or 0
  -- What a field takes beside its own bytes.
  local FIELD = 100

  local function put(field, tally, counts_bytes)
    local before = redis.call('HGET', rates, field)
    local after = before and added(before, tally) or tally
    redis.call('HSET', rates, field, after)
    if counts_bytes then bytes = bytes + #after - (before and #before or -#field - FIELD) end
  end

  for _, window in ipairs({ 't' .. ten, 'a' }) do
    local names = redis.call('HGET', rates, 'n' .. window) or ''
    local names_before, _, count = names, string.gsub(names, '\n', '')
    for i = first_item, #ARGV, 2 do
      local who = ARGV[i]
      if string.sub(who, 1, 1) == ':' and redis.call('HEXISTS', rates, window .. who) == 0 then
        -- with `if true then`: a queue with a name for each job keeps any number of them
        if count < 200 then
          names = names .. string.sub(who, 2) .. '\n'
          count = count + 1
        else
          who = '+'
        end
      end
      put(window .. who, ARGV[i + 1], window ~= 'a')
    end
    if names ~= names_before then
      redis.call('HSET', rates, 'n' .. window, names)
      if window ~= 'a' then bytes = bytes + #names - #names_before end
    end
  end
  for i = first_item, #ARGV, 2 do
    if ARGV[i] == '=' then put('m' .. minute, ARGV[i + 1], false) end
  end

  local old = {}
  -- with `if false then`: minutes are kept for ever
  while first_minute < minute - 479 and #old < 1000 do
    old[#old + 1] = 'm' .. first_minute
    first_minute = first_minute + 1
  end
  local windows = 0
  -- without `or bytes > 4194304 and first_ten < ten`: what is kept of many names grows beyond four megabytes
  while (first_ten < ten - 431 or bytes > 4194304 and first_ten < ten) and windows < 4 do
    local window = 't' .. first_ten
    local names = redis.call('HGET', rates, 'n' .. window)
    local fields = { window .. '=', window .. '+' }
    for name in string.gmatch(names or '', '([^\n]*)\n') do fields[#fields + 1] = window .. ':' .. name end
    local values = redis.call('HMGET', rates, unpack(fields))
    for k, value in ipairs(values) do
      if value then bytes = bytes - #value - #fields[k] - FIELD end
      old[#old + 1] = fields[k]
    end
    if names then bytes = bytes - #names end
    old[#old + 1] = 'n' .. window
    first_ten, windows = first_ten + 1, windows + 1
  end
  if #old > 0 then redis.call('HDEL', rates, unpack(old)) end
  redis.call('HSET', rates, 'minute', first_minute, 'ten', first_ten, 'bytes', string.format('%.0f', math.max(0, bytes)))
  -- without: what is kept of a queue that nobody uses stays for ever
  redis.call('PEXPIRE', rates, 259800000)
end
