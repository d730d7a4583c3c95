-- Settles the outcomes handed along, promotes due jobs, reclaims ended leases unless they are spared, and leases up to `want` ready jobs.
-- Moves:   delayed -> ready; reserved -> ready | failed | delayed | gone; ready -> reserved.
-- Replies: {status, settled flags, token, us until the next moment or -1, promised, 1 if the queue has limits, ids, records,
--          came back, ids, ...} with status `jobs`, `none` or `paused`; where there are no ids, the records are ids of jobs
--          that failed for whose results somebody may wait; or `superseded`, `format <n>`, `levels <list>`, `again`.
-- Cost:    O(log n) a job; at most `want` jobs or `max_bytes` of records, 100 reclaimed, 4 * want + 100 promoted,
--          and where more than one level is in use 1,000; 1,100 entries that no longer count and 10 * want + 100 that are read.
-- Shortly after an outage `ahead` is 2 or 3 instead of 0 or 1: leases that are over are spared, because their workers may live and
-- were only not heard.
local spares = ahead > 1
if spares then ahead = ahead - 2 end
--- include: once
if earlier == 'superseded' then return earlier end
if earlier then
  -- `<flags> <token> <id>\n<id>...`: of the jobs granted then, those that are still held under that token. What was fetched ahead
  -- is not sent any more when its lease is over: a worker could not start it, and over a line that cuts off each large reply
  -- would ask for it for ever.
  --- include: clock
  local flags, token, first = string.match(earlier, '^(%d*) (%d*) ()')
  local has = redis.call('HMGET', meta, 'limits', 'names')
  local reply = { 'jobs', flags, token, -1, 0, (has[1] or has[2]) and 1 or 0 }
  for id in string.gmatch(string.sub(earlier, first), '[^\n]+') do
    local is_held = redis.call('HGET', leases, id) == token
    if is_held and ahead == 1 then is_held = tonumber(redis.call('ZSCORE', reserved, id) or 0) > now end
    if is_held then
      reply[#reply + 1] = { id }
      reply[#reply + 1] = redis.call('HMGET', jobs, id)
      reply[#reply + 1] = redis.call('HMGET', returned, id)
    end
  end
  if #reply == 6 then reply[1] = 'none' end
  return reply
end
--- include: meta
if refused then return refused end
--- include: clock

-- A foreign type under one of our keys stops it before the first write, or jobs would be popped and leased to nobody.
local live = redis.call('HLEN', jobs)
redis.call('ZCARD', delayed)
redis.call('HLEN', leases)
redis.call('HLEN', returned)
local some_stale = tonumber(known[6] or 0) > 0
if some_stale then redis.call('HLEN', stale) end
if names then
  redis.call('ZCARD', parked)
  redis.call('ZCARD', places)
end
if #levels > 1 or #ARGV >= first_item then
  for level in string.gmatch(levels, '%d') do redis.call('LLEN', ready(level)) end
end
-- Reclaiming looks at it too, but only behind the outcomes.
if #ARGV >= first_item then redis.call('ZCARD', failed) end

local some_large = known[9]
if some_large and live == 0 then
  redis.call('HDEL', meta, 'large')
  some_large = nil
end
do
  local last_token = known[5]
  --- include: set_back
end
local settled = ''
if #ARGV >= first_item then
  --- include: settle_acks
  if next_item <= #ARGV then
    --- include: settle_others
  end
  settled = table.concat(flags)
end
-- Far more than are taken, because a level goes before another only among jobs that are promoted.
local promote_cap, reclaim_cap = 4 * want + 100, '100'
if #levels > 1 then promote_cap = math.max(promote_cap, 1000) end
local reply = { 'jobs', settled, '', -1, 0, (known[7] or names) and 1 or 0 }
if not spares then
  --- include: reclaim_expired
end
do
  --- include: promote_due
end

-- What the queue's limits leave to this call: all that it asks for where there are none.
local asked, room, places_left = want, math.huge, math.huge
local opens_us, charge_rate
if known[7] then
  --- include: limits
  want = math.min(want, room)
end
-- Limits of names: what they leave is asked for where a job of such a name comes up.
local named, numbers_parked
if names then
  --- include: live_names
  if names == '?' or string.find(names, ';0;', 1, true) then
    names = live_names(names)
    if names ~= known[8] then write_names(names) end
    if not names and not known[7] then reply[6] = 0 end
  end
  if names then
    --- include: names, name_rooms
    if named.rates then named.note_late() end
    numbers_parked = redis.call('EXISTS', parked) == 1 and named.numbers
  end
end

-- Looks at the head of each level in turn, chunk by chunk. First all is read, so that a wrong type or a huge record stops
-- it before anything moved; entries of jobs that were cancelled or moved since are skipped.
local READ_CHUNK = 100
local paused = known[4] == '1'
-- So many entries that no longer count go without a look at each.
local stale_left = 1000
local some_came_back
local granted, bytes = 0, 0
local left_behind = false
local lease_pairs, ends, granted_texts, place_pairs = {}, {}, {}, {}
-- Larger than every token before it, also when the server's clock was set back; and, after a failover that forgot the
-- last tokens, still larger than those, because it follows the clock. It also says whether the jobs are fetched ahead.
--- include: ahead
local lease_end = string.format('%.0f', from + lease_ms)
local token = math.max(now_us, tonumber(known[5] or 0) + 1)
if ahead == 1 then
  token = math.ceil(token / AHEAD) * AHEAD
elseif token % AHEAD == 0 then
  token = token + 1
end
token = string.format('%.0f', token)

if want > 0 and not paused then
  for i = 1, #levels do
    local level = string.sub(levels, i, i)
    local list = ready(level)
    local next_name = 1
    repeat
      -- What limits of names held back is older than what is in the list.
      local number = numbers_parked and numbers_parked[next_name]
      next_name = next_name + 1
      local looked_at, parked_bytes = 0, 0
      while granted < want and not left_behind do
        local asked = math.min(want - granted, READ_CHUNK)
        if number then asked = math.min(asked, named.room(number)) end
        if asked == 0 then break end
        if some_stale and not number then
          --- include: stale_run
        end
        -- One more than asked for shows whether jobs are left behind.
        local entries = number and named.first(number, level, asked + 1) or redis.call('LRANGE', list, '0', asked)
        local length = #entries
        if length == 0 then break end
        local more = length > asked
        if more then
          entries[length] = nil
          length = asked
        end
        if length > 1 then
          -- Large records are not read by the hundred, only to be left behind. Each is asked for its size where there may be
          -- large ones; else the first one stands for all, as who writes records without duly does not say how large they are.
          local fitting
          if some_large then
            --- include: fitting
            fitting = count_fitting(entries, max_bytes - bytes)
          else
            fitting = math.floor((max_bytes - bytes) / math.max(redis.call('HSTRLEN', jobs, entries[1]), 1))
          end
          for k = length, math.max(fitting, 1) + 1, -1 do
            entries[k] = nil
            length = k - 1
            more = true
          end
        end
        looked_at = looked_at + length
        local records = redis.call('HMGET', jobs, unpack(entries))
        local is_stale
        if some_stale and not number then
          is_stale = {}
          -- Known before bytes are counted: an entry that no longer counts must not hold back the job behind it.
          local passed = {}
          for k = 1, length do
            local id = entries[k]
            passed[id] = (passed[id] or 0) + 1
            if passed[id] <= tonumber(redis.call('HGET', stale, level .. ':' .. id) or 0) then
              is_stale[k], records[k] = true, false
            end
          end
        end
        local number_of, is_full
        if named then
          --- include: find_full
        end
        local fit, gone = length, 0
        for k = 1, length do
          local record = records[k]
          if record then
            bytes = bytes + #record
            if bytes > max_bytes and granted + k - gone > 1 then
              fit = k - 1
              left_behind = true
              break
            end
          else
            gone = gone + 1
          end
        end
        if some_came_back == nil then some_came_back = redis.call('HLEN', returned) > 0 end
        if not number then
          redis.call('LTRIM', list, fit, '-1')
        elseif fit > 0 then
          redis.call('ZREM', parked, unpack(entries, 1, fit))
        end
        if named then
          --- include: take_places
        end
        if fit < length or gone > 0 then
          --- include: stale
          local kept_ids, kept_records = {}, {}
          for k = 1, fit do
            if is_stale and is_stale[k] then skip_stale(level, entries[k]) end
            if records[k] then
              kept_ids[#kept_ids + 1] = entries[k]
              kept_records[#kept_records + 1] = records[k]
            end
          end
          entries, records = kept_ids, kept_records
        end
        local count = #entries
        if count > 0 then
          reply[#reply + 1] = entries
          reply[#reply + 1] = records
          reply[#reply + 1] = some_came_back and redis.call('HMGET', returned, unpack(entries)) or 0
          local at = 2 * granted
          for k = 1, count do
            local id = entries[k]
            lease_pairs[at + 1], lease_pairs[at + 2] = id, token
            ends[at + 1], ends[at + 2] = lease_end, id
            at = at + 2
          end
          granted_texts[#granted_texts + 1] = table.concat(entries, '\n')
          granted = granted + count
        end
        if more and (granted == want and not number or looked_at >= 10 * want + 100 or parked_bytes > max_bytes) then
          left_behind = true
        end
        if not more then break end
      end
    until not number
    if named and granted == want and not left_behind then left_behind = redis.call('EXISTS', list) == 1 end
    if granted == want and not left_behind and i < #levels then
      left_behind = redis.call('EXISTS', ready(string.sub(levels, i + 1, i + 1))) == 1
    end
  end
end

if granted > 0 then
  redis.call('ZADD', reserved, unpack(ends))
  if #place_pairs > 0 then redis.call('ZADD', places, unpack(place_pairs)) end
  if named and not left_behind then left_behind = named.takeable() end
  redis.call('HSET', leases, unpack(lease_pairs))
  redis.call('HSET', meta, 'token', token)
  reply[3] = token
  -- Who promised to come back for the next due job is busy now: somebody else must.
  local timer = tonumber(known[3] or 0)
  local gave_back = promise > 0 and timer == promise
  if gave_back then
    redis.call('HDEL', meta, 'timer')
    timer = 0
  end
  if charge_rate then charge_rate(granted) end
  if named and named.rates then named.charge_rates() end
  -- Nobody can take what a limit holds back. Who frees a place wakes a waiter; but for the moment at which a rate lets the next
  -- one start, somebody must promise to come back.
  local opens = left_behind and now_us or named and named.rates and named.next_start() or math.huge
  if granted == room then opens = places_left > granted and math.max(opens, opens_us()) or math.huge end
  local wake_next = opens <= now_us or opens < math.huge and (timer <= now or math.ceil(opens / 1000) < timer)
  if wait_ms > 0 and not wake_next then
    local next_due = redis.call('ZRANGE', delayed, '0', '0', 'WITHSCORES')[2]
    wake_next = next_due and (timer <= now or tonumber(next_due) < timer)
    -- Also for a lease of somebody else that ends before these: they are looked after as all new ones are.
    if gave_back and not wake_next then
      wake_next = tonumber(redis.call('ZRANGE', reserved, '0', '0', 'WITHSCORES')[2]) < tonumber(lease_end)
    end
  end
  if wake_next then
    --- include: wake_one
  end
  answer(settled .. ' ' .. token .. ' ' .. table.concat(granted_texts, '\n'))
  return reply
end

-- Idle workers do not write each time that they look; but where a copy of this call may come late, it must find that the
-- call was answered, or it would lease jobs to nobody.
local is_kept = #settled > 0 or call_renew ~= '0'
reply[1] = paused and 'paused' or 'none'
if left_behind then
  -- So many entries that no longer count, that the jobs behind them were not reached: come back at once.
  --- include: wake_one
  reply[4] = 0
  if is_kept then
    --- include: room_first
    answer(settled .. '  ')
  end
  return reply
end
-- Nothing to do now. The first waiter that sees the next moment promises to come back for it; the others wait for a wake.
local next_due = redis.call('ZRANGE', delayed, '0', '0', 'WITHSCORES')[2]
local next_end = redis.call('ZRANGE', reserved, '0', '0', 'WITHSCORES')[2]
-- What is spared is looked after again in a second, until it is reclaimed.
if spares and next_end then next_end = math.max(tonumber(next_end), now + 1000) end
local opens = math.huge
if asked > 0 and named and named.rates and not paused then opens = named.next_start() end
if asked > 0 and room == 0 and not paused then
  -- A limit holds back what is due and what is ready.
  local some_wait = next_due and tonumber(next_due) <= now
  if some_wait then next_due = nil end
  for level in string.gmatch(levels, '%d') do some_wait = some_wait or redis.call('EXISTS', ready(level)) == 1 end
  some_wait = some_wait or named and named.takeable()
  if some_wait then opens = now_us end
  opens = places_left > 0 and math.max(opens, opens_us()) or math.huge
end
-- To the microsecond, or each wait would end up to a millisecond late; never early by the clock that decides.
local next_us = math.min(math.ceil(math.min(tonumber(next_due or math.huge), tonumber(next_end or math.huge))) * 1000, opens)
local next_at = math.ceil(next_us / 1000)
local timer = tonumber(known[3] or 0)
if next_at < math.huge then
  reply[4] = math.max(0, next_us - now_us)
  if wait_ms > 0 and (timer <= now or timer == promise or next_at < timer) then
    local promised = math.max(now + 1, math.min(next_at, now + wait_ms))
    -- Refused when the server has no memory left: then nobody promises, and all come back by themselves.
    local noted = redis.pcall('HSET', meta, 'timer', string.format('%.0f', promised))
    if type(noted) == 'number' then reply[5] = promised end
  end
end
-- Who leaves, or has nothing left to come back for, takes the promise back: a push would count on it.
if reply[5] == 0 and promise > 0 and timer == promise then
  redis.call('HDEL', meta, 'timer')
  if wait_ms == 0 then
    --- include: wake_one
  end
end
if asked == 0 and string.find(settled, '[12]') then
  --- include: place_freed
end
if is_kept then
  --- include: room_first
  answer(settled .. '  ')
end
return reply
