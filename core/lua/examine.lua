-- All that is kept about some ids, in one look; without ids, what the queue says of itself. Read-only.
-- Moves:   nothing.
-- Replies: one list an id, of the first ids only if their records are larger than `max_bytes`; without ids {levels, stale
--          entries as `meta` says, as they are, levels with a ready list, how many fields of `stale` are not duly's}.
-- Cost:    O(log n) an id, at most 250 ids, and with `counts_entries` O(1) for each entry of all ready lists; without ids O(1) for each
--          field of `stale`.
--- include: job/routing, job/delayed_member, audit/stale_sum, audit/examine_one, audit/entries_of
if #ARGV < first_item then
  local used = ''
  for level in string.gmatch(passed_levels, '%d') do
    if redis.call('EXISTS', ready(level)) == 1 then used = used .. level end
  end
  local levels, stale_entries = unpack(redis.call('HMGET', meta, 'levels', 'stale_entries'))
  local sum, foreign = stale_sum()
  return { levels or '', stale_entries or '0', string.format('%.0f', sum), used, #foreign }
end

-- ARGV from first_item: (id, member of `delayed` or '', key or '') each.
local reply = {}
local bytes = 0
local entries = {}
if counts_entries == 1 then
  local ids = {}
  for at = first_item, #ARGV, 3 do ids[#ids + 1] = ARGV[at] end
  entries = entries_of(ids)
end
for at = first_item, #ARGV, 3 do
  local looked = examine_one(ARGV[at], ARGV[at + 1], ARGV[at + 2])
  looked[#looked + 1] = entries[ARGV[at]] or ''
  reply[#reply + 1] = looked
  bytes = bytes + (tonumber(looked[1]) or 0)
  if bytes > max_bytes then break end
end
return reply
