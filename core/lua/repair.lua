-- Mends what an audit found: one thing of each of these jobs, if the job is still exactly as the audit saw it, or of the queue (`whole`).
-- Moves:   by `mend`: an orphan -> ready | failed; a broken lease -> ready | failed; else only entries go or are corrected.
-- Replies: `done` or `changed` (not touched), one line a job; or `format <n>`. Right when sent twice: the second time the job has
--          changed.
-- Cost:    O(log n) a job, at most 250 jobs or 2 MiB of records, which are read twice, and O(1) for each entry of all ready lists, or for each field of `stale`.
--- include: call/meta
if refused then return refused end

--- include: audit/stale_sum
if whole == 'levels' then
  -- ARGV: the levels in use.
  local used = ''
  for level in string.gmatch('0123456789', '%d') do
    if string.find(levels .. ARGV[first_item], level, 1, true) then used = used .. level end
  end
  redis.call('HSET', meta, 'levels', used)
  return 'done'
end
if whole == 'stale_total' then
  local sum, foreign = stale_sum()
  sum = string.format('%.0f', sum)
  if #foreign == 0 and (noted_stale or '0') == sum then return 'changed' end
  for _, field in ipairs(foreign) do redis.call('HDEL', stale, field) end
  redis.call('HSET', meta, 'stale_entries', sum)
  return 'done'
end

--- include: call/clock, job/routing, job/delayed_member, job/put_first, audit/examine_one, audit/entries_of, back/note, history/events, failed/set, failed/note_unheard, wake/one, wake/at
-- ARGV: (id, member of `delayed`, key, what to do, level, amount, what the audit saw (16 texts)) each.
local WIDTH = 22
local ids, outcomes = {}, {}
for at = first_item, #ARGV, WIDTH do ids[#ids + 1] = ARGV[at] end
-- One walk for all: they are jobs of different ids.
local entries = entries_of(ids)

local function is_unchanged(at)
  local id = ARGV[at]
  local seen = examine_one(id, ARGV[at + 1], ARGV[at + 2])
  seen[#seen + 1] = entries[id]
  for k, text in ipairs(seen) do
    if text ~= ARGV[at + 5 + k] then return false end
  end
  return true
end

local function repair(at)
  local id, member, key = ARGV[at], ARGV[at + 1], ARGV[at + 2]
  local mend, level, amount = ARGV[at + 3], ARGV[at + 4], ARGV[at + 5]
  local own_number = ARGV[at + 20]
  local own_level, max_retries, own_key = routing(redis.call('HGET', jobs, id) or '{')
  if mend == 'to_ready' then
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
      put_first(id, own_level)
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
    put_first(id, own_level)
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
    local field = level .. ':' .. id
    local count = redis.call('HGET', stale, field)
    if count and not stale_count(count) then redis.call('HDEL', stale, field) end
    if redis.call('HINCRBY', stale, field, amount) <= 0 then redis.call('HDEL', stale, field) end
    -- What is not a number is put right behind all jobs.
    if string.find(noted_stale or '0', '^%-?[1-9]%d*$') or (noted_stale or '0') == '0' then
      redis.call('HINCRBY', meta, 'stale_entries', amount)
    end
  elseif mend == 'take_key' then
    redis.call('HSET', keys, own_key, id)
  elseif mend == 'drop_key' then
    redis.call('HDEL', keys, key)
  elseif mend == 'free_key' then
    redis.call('HDEL', keys, own_key)
  elseif mend == 'drop_note' then
    redis.call('HDEL', returned, id)
  end
end

for at = first_item, #ARGV, WIDTH do
  local is_same = is_unchanged(at)
  if is_same then
    repair(at)
    happened('H', ARGV[at], 1, ARGV[at + 3])
  end
  outcomes[#outcomes + 1] = is_same and 'done' or 'changed'
end
--- include: history/keep
return table.concat(outcomes, '\n')
