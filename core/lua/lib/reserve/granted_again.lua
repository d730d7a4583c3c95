-- The answer of a reserve that was sent again: of the jobs granted then, those that are still held under that token. What was
-- fetched ahead is not sent any more when its lease is over: a worker could not start it, and over a line that cuts off each large
-- reply would ask for it for ever.
-- Needs: `earlier` (`<flags> <token> <id>\n<id>...`), what `call/clock` gives. Gives: `reply`.
local flags, token, first = string.match(earlier, '^(%d*) (%d*) ()')
local noted_limits = redis.call('HGET', meta, 'limits')
-- with `0` for `noted_limits and (noted_limits == '' and 2 or 1) or 0`: a worker fetches ahead in a queue with limits after a lost answer
local reply = { 'jobs', flags, token, -1, 0, noted_limits and (noted_limits == '' and 2 or 1) or 0 }
for id in string.gmatch(string.sub(earlier, first), '[^\n]+') do
  -- with `local is_held = true`: a reserve sent again gives a job that another worker has
  local is_held = redis.call('HGET', leases, id) == token
  -- without: a line that cuts off each large reply is asked for the same one for ever
  if is_held and ahead == 1 then is_held = tonumber(redis.call('ZSCORE', reserved, id) or 0) > now end
  if is_held then
    reply[#reply + 1] = { id }
    reply[#reply + 1] = redis.call('HMGET', jobs, id)
    reply[#reply + 1] = redis.call('HMGET', returned, id)
  end
end
if #reply == 6 then
  reply[1] = 'none'
elseif tonumber(token) > now_us then
  -- without: a reserve that is sent again ends jobs before they expire, where the clock was set back
  reply[5] = now
end
