-- What the queue says of itself, read in one command.
local FORMAT = 1
local known = redis.call('HMGET', meta, 'format', 'levels', 'timer', 'paused', 'token', 'stale_entries')
local levels = known[2]

-- Why this call must not go on, if so. A format newer than ours refuses every call that could write. The caller passes the
-- lists of the priority levels that it knows to be in use; if there are others, it is told them and calls again.
local function refusal()
  if known[1] and known[1] ~= '1' and tonumber(known[1]) > FORMAT then return 'format ' .. known[1] end
  if levels == passed_levels then return nil end
  if not levels then
    -- A new queue; or one that lost its `meta`, which then gets all levels, to hide no job.
    levels = passed_levels
    if redis.call('EXISTS', jobs) == 1 then levels = '0123456789' end
  end
  for level in string.gmatch(levels, '%d') do
    if not string.find(passed_levels, level, 1, true) then return 'levels ' .. levels end
  end
  return nil
end

local function integer(number)
  return string.format('%.0f', number)
end
