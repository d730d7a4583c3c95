-- Takes the first jobs of a state out of it, of a sorted set those up to the score `latest`, and hands them to `forget`: their ids, and
-- from a sorted set also the set and their members, which are still in it.
-- Needs: `state`, `set` (of that state, unless it is `ready`), `cap`, `latest`, `forget`, `skip_stale`, what `call/meta` and
-- `purge/head_of_state` give. Gives: `removed`, `seen`.
local removed, seen = 0, 0
if state == 'ready' then
  for level in string.gmatch(levels, '%d') do
    -- with `ready(level), 0, cap - 1)` for `ready(level), 0, cap - seen - 1)`: a purge removes more than its cap
    local entries = redis.call('LRANGE', ready(level), 0, cap - seen - 1)
    cut(entries)
    if #entries > 0 then
      seen = seen + #entries
      redis.call('LTRIM', ready(level), #entries, -1)
      local ids = {}
      for _, id in ipairs(entries) do
        -- with `ids[#ids + 1] = id`: purging ready jobs removes one that has been rescheduled
        if not skip_stale(level, id) then ids[#ids + 1] = id end
      end
      if #ids > 0 then removed = removed + forget(ids) end
    end
    -- with `if seen >= cap then break end`: a purge that has read enough reads on in each other level
    if seen >= cap or is_cut then break end
  end
  --- if limited
  -- with `parked, 0, cap - 1)` for `parked, 0, cap - seen - 1)`: a purge removes more than its cap
  local parked_ids = limits and seen < cap and not is_cut and redis.call('ZRANGE', parked, 0, cap - seen - 1) or {}
  cut(parked_ids)
  if #parked_ids > 0 then
    seen = seen + #parked_ids
    -- without: purged jobs that were held back leave their entries
    redis.call('ZREM', parked, unpack(parked_ids))
    removed = removed + forget(parked_ids)
  end
  --- end
else
  -- with `'+inf'` for `latest`: a yes to all failed jobs removes those that failed since the question
  local members = redis.call('ZRANGEBYSCORE', set, '-inf', latest, 'LIMIT', 0, cap)
  local ids = {}
  for i, member in ipairs(members) do
    -- A tab in a member is the level's mark; the others have plain ids, and an id holds no tab.
    ids[i] = string.match(member, '^[^\t]*')
  end
  cut(members, ids)
  seen = #members
  if seen > 0 then
    removed = forget({ unpack(ids, 1, seen) }, set, members)
    redis.call('ZREM', set, unpack(members))
    if state == 'failed' then
      local left = seen
      --- include: failed/shorten_line
    end
  end
end
