-- A job that a limit of concurrency held back may take the place that is free now: somebody must look, unless nobody may.
if (known[7] or names) and known[4] ~= '1' then
  local some_wait = false
  if known[7] and string.byte(known[7]) ~= 48 then
    for level in string.gmatch(levels, '%d') do some_wait = some_wait or redis.call('EXISTS', ready(level)) == 1 end
  end
  if names and not some_wait then
    local named
    --- include: names
    some_wait = named.takeable()
  end
  if some_wait then
    --- include: wake_one
  end
end
