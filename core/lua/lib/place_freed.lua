-- A job that a limit of concurrency held back may take the place that is free now: somebody must look, unless nobody may. Where the
-- rate of its name lets it start later, somebody must promise to come back for that.
if (noted_limits or names) and noted_paused ~= '1' then
  local some_wait = false
  if noted_limits and string.byte(noted_limits) ~= 48 then
    for level in string.gmatch(levels, '%d') do some_wait = some_wait or redis.call('EXISTS', ready(level)) == 1 end
  end
  if names and not some_wait then
    local named
    --- include: clock, names, name_rooms
    some_wait = named.takeable()
    local opens = named.rates and math.ceil(named.next_start() / 1000) or math.huge
    if opens < math.huge and not some_wait then
      local timer = tonumber(redis.call('HGET', meta, 'timer') or 0)
      some_wait = timer <= now or opens < timer
    end
  end
  if some_wait then
    --- include: wake_one
  end
end
