-- Moves due jobs from `delayed` to their ready lists, oldest due first, at most `promote_cap`.
-- Needs: what `call/clock` gives, `promote_cap`, except in the plain text what `history/events` gives. Gives: `promoted`.

-- with `'LIMIT', '0', '100000')` for `'LIMIT', '0', promote_cap)`: a million jobs due at once stall the server
local promoted = redis.call('ZRANGEBYSCORE', delayed, '-inf', now_text, 'LIMIT', '0', promote_cap)
if #promoted > 0 then
  local by_level = {}
  -- One look for all: nearly always every job has the default level, and its member is its id.
  if not string.find(table.concat(promoted, '\n'), '\t', 1, true) then
    by_level['5'] = promoted
  else
    --- include: job/routing
    for _, member in ipairs(promoted) do
      local id, level = string.match(member, '^([^\t]*)\t(%d)$')
      if not string.find(member, '\t', 1, true) then
        id, level = member, '5'
      -- with `elseif false then`: a member that duly did not write holds up every reserve
      -- with `elseif not level then`: a member with a level that nobody uses holds up every reserve
      elseif not level or not string.find(passed_levels, level, 1, true) then
        -- Nobody's spelling: it must hold up nobody. A job that is there runs, at the level of its record; else it goes.
        id = string.match(member, '^[^\t]*')
        local record = redis.call('HGET', jobs, id)
        -- with `level = record and '5'`: a job with a malformed member forgets its level
        -- with `level = routing(record or '{')`: a member without a job is handed on
        level = record and routing(record)
      end
      if level then
        local ids = by_level[level]
        if not ids then
          ids = {}
          by_level[level] = ids
        end
        ids[#ids + 1] = id
      end
    end
  end
  -- Fails on a foreign type while nothing is moved yet.
  -- without `redis.call('LLEN', ready(level))`: a foreign type under a list loses the jobs that were due
  for level in pairs(by_level) do redis.call('LLEN', ready(level)) end
  -- They are the first of the set, so it need not look for each of them.
  -- with `'0', '-1'` for `'0', #promoted - 1`: jobs beyond the cap are lost
  redis.call('ZREMRANGEBYRANK', delayed, '0', #promoted - 1)
  for level, ids in pairs(by_level) do redis.call('RPUSH', ready(level), unpack(ids)) end
  --- if limited
  for _, ids in pairs(events and by_level or {}) do happened('Q', table.concat(ids, '\n'), #ids) end
  --- end
end
