-- What the queue says of itself, and whether this call must not go on (`refused`). Another format than ours refuses every call
-- that could write: the client brings an older one up to ours (`upgrade`), and leaves a newer one alone. The caller passes the lists of
-- the priority levels that it knows to be in use; if there are others, the reply names them and it calls again.
-- Gives: what the queue says: `noted_format`, `noted_levels`, `noted_timer`, `noted_paused`, `noted_stale`, `noted_limits`, `noted_large`,
-- `last_token`, and, except in the plain text, `noted_history` and `noted_max_length`; the `levels` in use and the `limits` that follow from it; `refused`; `LARGE`.

-- A hundred records of at most so many bytes are not more than one call may read. Where there may be larger ones, `meta` says so.
local LARGE = 41943
--- if plain
local noted_format, noted_levels, noted_timer, noted_paused, last_token, noted_stale, noted_limits, noted_large =
  unpack(redis.call('HMGET', meta, 'format', 'levels', 'timer', 'paused', 'token', 'stale_entries', 'limits', 'large'))
--- else
local noted_format, noted_levels, noted_timer, noted_paused, last_token, noted_stale, noted_limits, noted_large, noted_history,
  noted_max_length = unpack(redis.call(
    'HMGET', meta, 'format', 'levels', 'timer', 'paused', 'token', 'stale_entries', 'limits', 'large', 'history', 'max_length'
  ))
--- end
local levels, limits = noted_levels, noted_limits
--- if limited
-- A queue that has no limits and another option says so by an empty text, which sends away the plain texts (below).
if limits == '' then limits = nil end
--- end
local refused
if levels ~= passed_levels or noted_format ~= 'FORMAT' then
  -- with `if false then`: an old client writes into a queue of a newer format
  if noted_format and noted_format ~= 'FORMAT' then
    refused = 'format ' .. noted_format
  else
    if not levels then
      -- A new queue; or one that lost its `meta`, which then gets all levels, to hide no job, and may have parked ones.
      local is_lost = redis.call('EXISTS', jobs) == 1
      -- without `is_lost and '0123456789' or`: a queue that lost its meta hides the jobs of other levels
      levels = is_lost and '0123456789' or passed_levels
      -- without: a queue that lost its meta hides what its limits held back
      limits = limits or is_lost and '?'
    end
    for used in string.gmatch(levels, '%d') do
      -- without: a caller that does not know of a level hides its jobs
      if not string.find(passed_levels, used, 1, true) then refused = 'levels ' .. levels end
    end
  end
end
--- if plain
-- Limits, a history and a length are another shape of the queue: its scripts are larger, and pass more keys.
-- without: a client that knows of no limits hands out what they hold back
if limits and not refused then refused = 'shape limits' end
--- end
