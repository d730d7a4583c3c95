-- The next batch of a lane: jobs of another queue go out of its list or sorted set into a list of the bridge, under a sequence that
-- rises, and stay there until a later call says that the batch is in.
-- Keys:    the other queue's list or sorted set; the bridge's list and its hash, both of this lane alone.
-- Replies: {sequence, or '' if there is nothing; the lane's id; the entries of the batch, from a sorted set each with its score}; or `fenced`: another bridge has taken over.
-- Cost:    O(log n) an entry: at most `most`, and no more after `most_bytes`.
local source, in_flight, state = KEYS[1], KEYS[2], KEYS[3]
local token, finished, lane, order = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local most, most_bytes, above = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
local noted = redis.call('HMGET', state, 'token', 'sequence', 'lane')
local noted_token, sequence, noted_lane = noted[1], noted[2], noted[3]
if noted_token and tonumber(noted_token) > tonumber(token) then return 'fenced' end
-- A server without memory refuses the first write that grows, and no other: this moves entries, and grows nothing for long.
redis.call('HDEL', state, '')
if noted_token ~= token then redis.call('HSET', state, 'token', token) end
if finished ~= '' and finished == sequence then redis.call('DEL', in_flight) end

local has_scores = order == 'score' or order == 'over'
local length = has_scores and redis.call('ZCARD', source) or 0
if not has_scores then length = redis.call('LLEN', source) end
local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
local is_in_flight = redis.call('EXISTS', in_flight) == 1
if is_in_flight and (not sequence or above and tonumber(sequence) <= above) then
  -- The server lost its last writes, or somebody deleted the hash: a later batch of this lane is in, and this one was not stored as it is.
  sequence = string.format('%.0f', math.max(now_us, (above or 0) + 1, tonumber(sequence or 0) + 1))
  noted_lane = noted_lane or lane
  redis.call('HSET', state, 'sequence', sequence, 'lane', noted_lane)
elseif most > 0 and length > 0 and not is_in_flight then
  local width = has_scores and 2 or 1
  local function page(from, count)
    if order == 'score' then return redis.call('ZRANGE', source, from, from + count - 1, 'WITHSCORES') end
    if order == 'over' then
      return redis.call('ZRANGEBYSCORE', source, '-inf', time[1], 'WITHSCORES', 'LIMIT', from, count)
    end
    if order == 'left' then return redis.call('LRANGE', source, from, from + count - 1) end
    -- The last entry of the list is the oldest.
    local turned, entries = {}, redis.call('LRANGE', source, -from - count, -from - 1)
    for i = #entries, 1, -1 do turned[#turned + 1] = entries[i] end
    return turned
  end
  local batch, taken, bytes = {}, 0, 0
  repeat
    local entries = page(taken, math.min(16, most - taken))
    for i = 1, #entries, width do
      bytes = bytes + #entries[i]
      if taken > 0 and bytes > most_bytes then break end
      for k = i, i + width - 1 do batch[#batch + 1] = entries[k] end
      taken = taken + 1
    end
  until #entries == 0 or taken >= most or bytes > most_bytes
  if taken > 0 then
    if has_scores then
      redis.call('ZREMRANGEBYRANK', source, '0', taken - 1)
    elseif order == 'left' then
      redis.call('LTRIM', source, taken, '-1')
    else
      redis.call('LTRIM', source, '0', -taken - 1)
    end
    redis.call('RPUSH', in_flight, unpack(batch))
    sequence = string.format('%.0f', math.max(now_us, tonumber(sequence or 0) + 1))
    noted_lane = noted_lane or lane
    redis.call('HSET', state, 'sequence', sequence, 'lane', noted_lane)
  end
end
local entries = redis.call('LRANGE', in_flight, '0', '-1')
return { #entries > 0 and sequence or '', noted_lane or lane, unpack(entries) }
