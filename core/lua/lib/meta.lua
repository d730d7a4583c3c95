-- What the queue says of itself, and whether this call must not go on (`refused`). A format newer than ours refuses every
-- call that could write. The caller passes the lists of the priority levels that it knows to be in use; if there are
-- others, the reply names them and it calls again.
local FORMAT = '1'
-- A hundred records of at most so many bytes are not more than one call may read. Where there may be larger ones, `meta` says so.
local LARGE = 41943
local known = redis.call('HMGET', meta, 'format', 'levels', 'timer', 'paused', 'token', 'stale_entries', 'limits', 'names', 'large')
local levels, names = known[2], known[8]
local refused
if levels ~= passed_levels or known[1] ~= FORMAT then
  if known[1] and tonumber(known[1]) > tonumber(FORMAT) then
    refused = 'format ' .. known[1]
  else
    if not levels then
      -- A new queue; or one that lost its `meta`, which then gets all levels, to hide no job, and may have parked ones.
      local is_lost = redis.call('EXISTS', jobs) == 1
      levels = is_lost and '0123456789' or passed_levels
      names = names or is_lost and '?'
    end
    for level in string.gmatch(levels, '%d') do
      if not string.find(passed_levels, level, 1, true) then refused = 'levels ' .. levels end
    end
  end
end
