-- All that is kept about one id, as text, '' where there is nothing: the record's size, level and key, the due time, whether
-- it is in `reserved`, the token, when it failed, what is kept beside it, who holds its key, its counts of stale entries; of
-- the given member of `delayed` the due time, of the given key the holder; `1` if it is parked, `2` where nobody looks, the
-- number of the place it has, and the number of its name if that has a limit.
-- Needs: `routing`, `delayed_member`, `stale_count`. Gives: `examine_one`.
local some_stale = redis.call('HLEN', stale) > 0
local limited
local limits = redis.call('HGET', meta, 'limits')
if limits then
  --- include: limits/limited
end
--- include: limits/parked
local function examine_limits(id, record)
  local number = ''
  if record and limited then
    local _, _, _, _, name = routing(record)
    local own = name and limited.by_name[name]
    if own and not own.is_gone then number = string.format('%.0f', own.number) end
  end
  local is_parked = ''
  local turn = redis.call('ZSCORE', parked, id)
  if turn then
    local is_known = limits == '?' or limited and limited.by_number[math.floor(turn / TURNS / 10)]
    is_parked = is_known and string.find(passed_levels, math.floor(turn / TURNS) % 10, 1, true) and '1' or '2'
  end
  return is_parked, redis.call('ZSCORE', places, id) or '', number
end

local function examine_one(id, member, key)
  local size, level, own_key, due, holder = '', '', '', '', ''
  local record = redis.call('HGET', jobs, id)
  if record then
    local _
    level, _, own_key = routing(record)
    own_key = own_key or ''
    size = string.format('%.0f', #record)
    due = redis.call('ZSCORE', delayed, delayed_member(id, level)) or ''
    if own_key ~= '' then holder = redis.call('HGET', keys, own_key) or '' end
  end
  local counts = {}
  if some_stale then
    local fields = {}
    for at = 0, 9 do fields[at + 1] = string.format('%.0f:', at) .. id end
    for at, count in ipairs(redis.call('HMGET', stale, unpack(fields))) do
      if count and stale_count(count) then counts[#counts + 1] = string.format('%.0f=', at - 1) .. count end
    end
  end
  local is_parked, place, number = examine_limits(id, record)
  return {
    size, level, own_key, due, redis.call('ZSCORE', reserved, id) and '1' or '', redis.call('HGET', leases, id) or '',
    redis.call('ZSCORE', failed, id) or '', redis.call('HGET', returned, id) or '', holder, table.concat(counts, ','),
    member ~= '' and redis.call('ZSCORE', delayed, member) or '', key ~= '' and redis.call('HGET', keys, key) or '',
    is_parked, place, number,
  }
end
