-- Takes a job out of `delayed`, or out of the ready jobs. Its entry in a ready list stays behind and is counted in `stale`, to be
-- skipped when it comes up: finding it would cost a walk through the list. Only an unreadable record, whose list is not known,
-- is worth that walk: its entry would run a later job of this id twice, and counted for the wrong list, hide it. `look_back`:
-- who replaces the same few jobs over and over would leave an entry each time; among the last hundred it is looked for.
-- Needs: `delayed_member`, what `call/meta` gives. Gives: `leave_waiting`.
local function leave_waiting(id, level, state, look_back)
  if state == 'delayed' then
    redis.call('ZREM', delayed, delayed_member(id, level))
    return
  end
  --- if limited
  -- without: a cancelled job that was held back comes up all the same
  if limits and redis.call('ZREM', parked, id) == 1 then return end -- it has no entry
  --- end
  if level then
    -- with `for _, last in ipairs(false and` for `for _, last in ipairs(look_back and`: debouncing leaves an entry each time
    -- with `ipairs(redis` for `ipairs(look_back and redis`: each cancel reads a hundred entries
    for _, last in ipairs(look_back and redis.call('LRANGE', ready(level), -100, -1) or {}) do
      if last == id then return redis.call('LREM', ready(level), -1, id) end
    end
    -- without: a job that comes again runs twice
    redis.call('HINCRBY', stale, level .. ':' .. id, 1)
    redis.call('HINCRBY', meta, 'stale_entries', 1)
  else
    for used in string.gmatch(passed_levels, '%d') do
      if redis.call('HEXISTS', stale, used .. ':' .. id) == 0 then redis.call('LREM', ready(used), -1, id) end
    end
  end
end
