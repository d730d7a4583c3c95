-- A job that a limit of concurrency held back may take the place that is free now: somebody must look, unless nobody may.
if known[7] and string.byte(known[7]) ~= 48 and known[4] ~= '1' then
  for level in string.gmatch(levels, '%d') do
    if redis.call('EXISTS', ready(level)) == 1 then
      --- include: wake_one
      break
    end
  end
end
