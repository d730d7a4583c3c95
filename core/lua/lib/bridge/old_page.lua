-- How the jobs of another queue lie in its key. Needs: `source`, `companion`, `order`, `held`, `grace_s`. Gives: `now_us`,
-- `has_scores`, `width`, `page`, `entry_of`.
local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
local has_scores = order == 'score' or order == 'over'
local width = has_scores and 2 or 1

-- So many entries behind the first ones, the oldest first; from a sorted set each with its score.
local function page(first, count)
  if order == 'score' then return redis.call('ZRANGE', source, first, first + count - 1, 'WITHSCORES') end
  if order == 'over' then
    local over = string.format('%.6f', now_us / 1000000 - grace_s)
    return redis.call('ZRANGEBYSCORE', source, '-inf', over, 'WITHSCORES', 'LIMIT', first, count)
  end
  if order == 'left' then return redis.call('LRANGE', source, first, first + count - 1) end
  -- The last entry of the list is the oldest.
  local turned, entries = {}, redis.call('LRANGE', source, -first - count, -first - 1)
  for i = #entries, 1, -1 do turned[#turned + 1] = entries[i] end
  return turned
end

-- The job of a member: itself, or what another key holds of it; nil if there is no such job any more; or nil and that key, if it is no job.
local function entry_of(member)
  if held == 'here' then return member end
  if held == 'field' then return redis.call('HGET', companion, member) or nil end
  local key = companion .. ':' .. member
  local fields = redis.pcall('HGETALL', key)
  if fields.err then return nil, key end
  local parts = {}
  for i = 1, #fields, 2 do
    -- An entry for a time that is over, of a job that was made ready or taken meanwhile, is nothing.
    if has_scores and fields[i] == 'status' and fields[i + 1] ~= '1' and fields[i + 1] ~= '3' then return nil end
    -- Lua's `%s` would end at a NUL.
    parts[#parts + 1] = #fields[i] .. ':' .. fields[i] .. #fields[i + 1] .. ':' .. fields[i + 1]
  end
  if #parts == 0 then return nil end
  return table.concat(parts)
end
