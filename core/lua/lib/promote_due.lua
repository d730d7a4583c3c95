-- Moves due jobs from `delayed` to their ready lists, oldest due first, at most `promote_cap`.
local promoted = redis.call('ZRANGEBYSCORE', delayed, '-inf', now_text, 'LIMIT', '0', promote_cap)
if #promoted > 0 then
  local by_level = {}
  -- One look for all: nearly always every job has the default level, and its member is its id.
  if not string.find(table.concat(promoted, '\n'), '\t', 1, true) then
    by_level['5'] = promoted
  else
    --- include: routing
    for _, member in ipairs(promoted) do
      local id, level = string.match(member, '^([^\t]*)\t(%d)$')
      if not string.find(member, '\t', 1, true) then
        id, level = member, '5'
      elseif not level or not string.find(passed_levels, level, 1, true) then
        -- Nobody's spelling: it must hold up nobody. A job that is there runs, at the level of its record; else it goes.
        id = string.match(member, '^[^\t]*')
        local record = redis.call('HGET', jobs, id)
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
  for level in pairs(by_level) do redis.call('LLEN', ready(level)) end
  -- They are the first of the set, so it need not look for each of them.
  redis.call('ZREMRANGEBYRANK', delayed, '0', #promoted - 1)
  for level, ids in pairs(by_level) do redis.call('RPUSH', ready(level), unpack(ids)) end
end
