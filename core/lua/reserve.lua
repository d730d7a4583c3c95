-- Settles the outcomes handed along, promotes due jobs, reclaims ended leases, and leases up to `want` ready jobs.
-- Moves:   delayed -> ready; reserved -> ready | failed | delayed | gone; ready -> reserved.
-- Replies: {status, settled flags, token, ms until something is due or -1, promised, ids, records, came back, ids, ...} with
--          status `jobs`, `none` or `paused`; or `superseded`, `format <n>`, `levels <list>`.
-- Cost:    O(log n) a job; at most `want` jobs or `max_bytes` of records, 100 reclaimed, 2 * want + 100 promoted.
--- include: clock, once, meta, routing, wake, came_back, failed_set, promote_due, reclaim_expired, settle_outcomes, stale
local RECLAIM_CAP = 100
local READ_CHUNK = 50

local earlier = answer_of_earlier_send()
if earlier == 'superseded' then return earlier end
if earlier then
  -- `<flags> <token> <id>\n<id>...`: of the jobs granted then, those that are still held under that token.
  local flags, token, first = string.match(earlier, '^(%d*) (%d*) ()')
  local reply = { 'jobs', flags, token, -1, 0 }
  for id in string.gmatch(string.sub(earlier, first), '[^\n]+') do
    if redis.call('HGET', leases, id) == token then
      reply[#reply + 1] = { id }
      reply[#reply + 1] = redis.call('HMGET', jobs, id)
      reply[#reply + 1] = redis.call('HMGET', returned, id)
    end
  end
  if #reply == 5 then reply[1] = 'none' end
  return reply
end
local refused = refusal()
if refused then return refused end

local flags = {}
if #ARGV >= first_item then settle_others(settle_acks(first_item, flags), flags) end
flags = table.concat(flags)

if not now then read_clock() end
local paused = known[4] == '1'
reclaim_expired(RECLAIM_CAP)
promote_due(2 * want + 100)

-- Looks at the head of each level in turn. First all is read, chunk by chunk, so that a wrong type or a huge record stops
-- it before anything moved; entries of jobs that were cancelled or moved since are skipped.
local some_stale = tonumber(known[6] or 0) > 0
local some_came_back
local reply = { 'jobs', flags, '', -1, 0 }
local count, bytes = 0, 0
local left_behind = false
local lease_pairs, ends, ids_granted = {}, {}, {}
-- Larger than every token before it, also when the server's clock was set back; and, after a failover that forgot the
-- last tokens, still larger than those, because it follows the clock.
local token = integer(math.max(now_us, tonumber(known[5] or 0) + 1))
local lease_end = now + lease_ms

local function fitting(records, room)
  for i, record in ipairs(records) do
    bytes = bytes + (record and #record or 0)
    if bytes > max_bytes and count + i > 1 then return i - 1 end
  end
  return room
end

local function take_from(level)
  local list = ready(level)
  local looked_at = 0
  while count < want and looked_at < 10 * want + 100 do
    local asked = math.min(want - count, READ_CHUNK)
    local entries = redis.call('LRANGE', list, 0, asked - 1)
    local length = #entries
    if length == 0 then return end
    local records = redis.call('HMGET', jobs, unpack(entries))
    local fit = fitting(records, length)
    local whole = fit == length and not some_stale
    for i = 1, fit do whole = whole and records[i] end
    redis.call('LTRIM', list, fit, -1)
    if not whole then
      local ids_kept, records_kept = {}, {}
      for i = 1, fit do
        if not skip_stale(level, entries[i]) and records[i] then
          ids_kept[#ids_kept + 1] = entries[i]
          records_kept[#records_kept + 1] = records[i]
        end
      end
      entries, records = ids_kept, records_kept
    end
    if #entries > 0 then
      if some_came_back == nil then some_came_back = redis.call('EXISTS', returned) == 1 end
      reply[#reply + 1] = entries
      reply[#reply + 1] = records
      reply[#reply + 1] = some_came_back and redis.call('HMGET', returned, unpack(entries)) or 0
      for _, id in ipairs(entries) do
        lease_pairs[#lease_pairs + 1] = id
        lease_pairs[#lease_pairs + 1] = token
        ends[#ends + 1] = lease_end
        ends[#ends + 1] = id
        count = count + 1
        ids_granted[count] = id
      end
    end
    if fit < length then
      left_behind = true
      return
    end
    if length < asked then return end
    looked_at = looked_at + length
  end
end

if want > 0 and not paused then
  redis.call('HLEN', leases)
  if some_stale then redis.call('HLEN', stale) end
  for level in string.gmatch(levels, '%d') do
    if count < want and not left_behind then take_from(level) end
    if count >= want then left_behind = left_behind or redis.call('EXISTS', ready(level)) == 1 end
  end
end

if count > 0 then
  redis.call('ZADD', reserved, unpack(ends))
  redis.call('HSET', leases, unpack(lease_pairs))
  redis.call('HSET', meta, 'token', token)
  reply[3] = token
  -- Who promised to come back for the next due job is busy now: somebody else must.
  if promise > 0 and tonumber(known[3] or 0) == promise then
    redis.call('HDEL', meta, 'timer')
    known[3] = false
  end
  if left_behind then
    wake_one()
  elseif wait_ms > 0 then
    local next_due = redis.call('ZRANGE', delayed, 0, 0, 'WITHSCORES')[2]
    if next_due then wake_for(tonumber(next_due)) end
  end
  answer(flags .. ' ' .. token .. ' ' .. table.concat(ids_granted, '\n'))
  return reply
end

reply[1] = paused and 'paused' or 'none'
-- Nothing to do now. The first waiter that sees the next moment promises to come back for it; the others wait for a wake.
local next_due = redis.call('ZRANGE', delayed, 0, 0, 'WITHSCORES')[2]
local next_end = redis.call('ZRANGE', reserved, 0, 0, 'WITHSCORES')[2]
local next_at = math.min(tonumber(next_due or math.huge), tonumber(next_end or math.huge))
if next_at < math.huge then
  reply[4] = math.max(0, math.ceil(next_at - now))
  local timer = tonumber(known[3] or 0)
  if wait_ms > 0 and (timer <= now or timer == promise or next_at < timer) then
    local promised = math.max(now + 1, math.min(next_at, now + wait_ms))
    -- Refused when the server has no memory left: then nobody promises, and all come back by themselves.
    if type(redis.pcall('HSET', meta, 'timer', integer(promised))) == 'number' then reply[5] = promised end
  elseif wait_ms == 0 and promise > 0 and timer == promise then
    redis.call('HDEL', meta, 'timer')
    wake_one()
  end
end
if #flags > 0 then answer(flags .. '  ') end
return reply
