-- What the queue says of itself, and whether this call must not go on (`refused`). Another format than ours refuses every call
-- that could write: the client brings an older one up to ours (`upgrade`), and leaves a newer one alone. The caller passes the lists of the priority levels that it knows to be in use; if there are
-- others, the reply names them and it calls again.
local FORMAT = '2'
-- A hundred records of at most so many bytes are not more than one call may read. Where there may be larger ones, `meta` says so.
local LARGE = 41943
local noted_format, noted_levels, noted_timer, noted_paused, last_token, noted_stale, noted_limits, noted_large =
  unpack(redis.call('HMGET', meta, 'format', 'levels', 'timer', 'paused', 'token', 'stale_entries', 'limits', 'large'))
local levels, limits = noted_levels, noted_limits
local refused
if levels ~= passed_levels or noted_format ~= FORMAT then
  if noted_format and noted_format ~= FORMAT then
    refused = 'format ' .. noted_format
  else
    if not levels then
      -- A new queue; or one that lost its `meta`, which then gets all levels, to hide no job, and may have parked ones.
      local is_lost = redis.call('EXISTS', jobs) == 1
      levels = is_lost and '0123456789' or passed_levels
      limits = limits or is_lost and '?'
    end
    for level in string.gmatch(levels, '%d') do
      if not string.find(passed_levels, level, 1, true) then refused = 'levels ' .. levels end
    end
  end
end
--- if plain
-- Limits are another shape of the queue: its scripts are larger, and pass more keys.
if limits and not refused then refused = 'shape limits' end
--- end
