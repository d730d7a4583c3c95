-- Mends one thing that an audit found, if the job is still exactly as the audit saw it.
-- Moves:   by `mend`: an orphan -> ready | failed; a broken lease -> ready | failed; else only entries go or are corrected.
-- Replies: `done`; `changed` (not touched); or `format <n>`. Right when sent twice: the second time the job has changed.
-- Cost:    O(log n), and O(2,000) where an entry of a ready list must be seen, or must not be there.
--- include: call/meta
if refused then return refused end

if mend == 'levels' then
  -- ARGV: the levels in use.
  local used = ''
  for level in string.gmatch('0123456789', '%d') do
    if string.find(levels .. ARGV[first_item], level, 1, true) then used = used .. level end
  end
  redis.call('HSET', meta, 'levels', used)
  return 'done'
end
if mend == 'stale_total' then
  -- ARGV: what `meta` said, by how much to change it.
  if (noted_stale or '0') ~= ARGV[first_item] then return 'changed' end
  redis.call('HINCRBY', meta, 'stale_entries', ARGV[first_item + 1])
  return 'done'
end

--- include: call/clock, job/routing, job/delayed_member, audit/examine_one, back/note, failed/set, failed/note_unheard, wake/one, wake/at
-- ARGV: id, member of `delayed`, key, what the audit saw (15 texts), level, amount, distance from the list's end.
local id, member, key = ARGV[first_item], ARGV[first_item + 1], ARGV[first_item + 2]
for at, seen in ipairs(examine_one(id, member, key)) do
  if seen ~= ARGV[first_item + 2 + at] then return 'changed' end
end
local level, amount = ARGV[first_item + 18], ARGV[first_item + 19]
local own_number = ARGV[first_item + 17]
local record = redis.call('HGET', jobs, id)
local own_level, max_retries, own_key = routing(record or '{')

-- Has the job an entry that counts, at either end of its list? One that was replaced by another of the same id and size looks as it did.
local function is_at_an_end()
  local list, entries = ready(own_level), 0
  local length = redis.call('LLEN', list)
  for _, ids in ipairs({
    redis.call('LRANGE', list, '0', 999),
    redis.call('LRANGE', list, math.max(1000, length - 1000), '-1'),
  }) do
    for _, entry in ipairs(ids) do
      if entry == id then entries = entries + 1 end
    end
  end
  return entries > tonumber(redis.call('HGET', stale, own_level .. ':' .. id) or 0)
end

if mend == 'to_ready' then
  if is_at_an_end() then return 'changed' end
  redis.call('RPUSH', ready(own_level), id)
  wake_one()
elseif mend == 'to_failed' then
  note_return(id, 1, 'undecodable record')
  enter_failed(id, own_key)
  note_unheard(id)
elseif mend == 'reclaim' then
  redis.call('ZREM', reserved, id)
  redis.call('HDEL', leases, id)
  redis.call('ZREM', places, id)
  if note_return(id, 1, 'lease broken: mended by an audit') > max_retries then
    enter_failed(id, own_key)
    note_unheard(id)
  else
    redis.call('LPUSH', ready(own_level), id)
    wake_one()
  end
elseif mend == 'drop_lease' then
  redis.call('ZREM', reserved, id)
  redis.call('HDEL', leases, id)
  redis.call('ZREM', places, id)
elseif mend == 'drop_parked' then
  redis.call('ZREM', parked, id)
elseif mend == 'unpark' then
  redis.call('ZREM', parked, id)
  redis.call('LPUSH', ready(own_level), id)
  wake_one()
elseif mend == 'take_place' then
  redis.call('ZADD', places, own_number, id)
elseif mend == 'drop_place' then
  redis.call('ZREM', places, id)
  wake_one()
elseif mend == 'drop_delayed' then
  redis.call('ZREM', delayed, delayed_member(id, own_level))
elseif mend == 'drop_member' then
  redis.call('ZREM', delayed, member)
elseif mend == 'rename_delayed' then
  local due = redis.call('ZSCORE', delayed, member)
  redis.call('ZREM', delayed, member)
  redis.call('ZADD', delayed, due, delayed_member(id, own_level))
elseif mend == 'drop_failed' then
  redis.call('ZREM', failed, id)
elseif mend == 'count_stale' then
  if not record and tonumber(amount) > 0 then
    -- Nothing else of this job would show that its entry was taken since: see it.
    local around = tonumber(ARGV[first_item + 20])
    local there = false
    for _, entry in ipairs(redis.call('LRANGE', ready(level), -around - 500, math.min(-1, -around + 500))) do
      if entry == id then there = true end
    end
    if not there then return 'changed' end
  end
  local field = level .. ':' .. id
  if redis.call('HINCRBY', stale, field, amount) <= 0 then redis.call('HDEL', stale, field) end
  redis.call('HINCRBY', meta, 'stale_entries', amount)
elseif mend == 'take_key' then
  redis.call('HSET', keys, own_key, id)
elseif mend == 'drop_key' then
  redis.call('HDEL', keys, key)
elseif mend == 'free_key' then
  redis.call('HDEL', keys, own_key)
elseif mend == 'drop_note' then
  redis.call('HDEL', returned, id)
else
  return 'changed'
end
return 'done'
