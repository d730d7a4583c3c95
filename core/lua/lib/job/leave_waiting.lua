-- Takes a job out of `delayed`, or out of the ready jobs. Its entry in a ready list stays behind and is counted in `stale`, to be
-- skipped when it comes up: finding it would cost a walk through the list. Only an unreadable record, whose list is not known,
-- is worth that walk: its entry would run a later job of this id twice, and counted for the wrong list, hide it.
-- `entered`: the level whose ready list gets an entry for it in this call. Who replaces the same few jobs over and over would leave an
-- entry each time; among the last hundred of that list it is looked for. Else nothing leaves the end of a list: who reads it
-- from there counts how far it has come. Where an entry stays behind, the head of the list is cleared, 1,000 entries in a call: the
-- oldest ready job is seen there, also while no worker skips what is stale.
-- Needs: `delayed_member`, what `call/meta` gives. Gives: `leave_waiting`.
local stale_left = 1000

local function leave_waiting(id, level, state, entered)
  if state == 'delayed' then
    redis.call('ZREM', delayed, delayed_member(id, level))
    return
  end
  --- if limited
  -- without: a cancelled job that was held back comes up all the same
  if limits and redis.call('ZREM', parked, id) == 1 then return end -- it has no entry
  --- end
  if level then
    local list = ready(level)
    -- with `for _, last in ipairs(false and` for `for _, last in ipairs(entered == level and`: debouncing leaves an entry each time
    -- with `ipairs(redis` for `ipairs(entered == level and redis`: what is read from the end of a list is not all of it
    for _, last in ipairs(entered == level and redis.call('LRANGE', list, -100, -1) or {}) do
      if last == id then return redis.call('LREM', list, -1, id) end
    end
    local field = level .. ':' .. id
    local first = redis.call('LINDEX', list, '0')
    if first == id and redis.call('HEXISTS', stale, field) == 0 then
      redis.call('LTRIM', list, '1', '-1')
      first = redis.call('LINDEX', list, '0')
    else
      -- without: a job that comes again runs twice
      redis.call('HINCRBY', stale, field, 1)
      redis.call('HINCRBY', meta, 'stale_entries', 1)
    end
    -- with `if false then`: nobody sees that jobs wait behind cancelled ones
    if first and redis.call('HEXISTS', stale, level .. ':' .. first) == 1 then
      --- include: job/stale_run
    end
  else
    for used in string.gmatch(passed_levels, '%d') do
      local field, at = used .. ':' .. id, 0
      repeat
        local entries = redis.call('HEXISTS', stale, field) == 0 and redis.call('LRANGE', ready(used), at, at + 999) or {}
        for _, entry in ipairs(entries) do
          if entry == id then
            redis.call('HINCRBY', stale, field, 1)
            return redis.call('HINCRBY', meta, 'stale_entries', 1)
          end
        end
        at = at + 1000
      until #entries < 1000
    end
  end
end
