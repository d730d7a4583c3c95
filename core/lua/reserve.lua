-- Settles the outcomes handed along, reclaims ended leases unless they are spared, promotes due jobs, and leases up to `want` ready jobs.
-- Moves:   delayed -> ready; reserved -> ready | failed | delayed | gone; ready -> reserved.
-- Replies: {status, settled flags, token, us until the next moment or -1, promised (with jobs: the time, if it is behind the token, or 0), 1 if the queue has limits, ids, records,
--          came back, ids, ...} (2 if it has none, but another option) with status `jobs`, `none`, `unfinished` or `paused`; where there are no ids, the records are ids of jobs
--          that failed or expired for whose results somebody may wait, and of expired ones what came back is how many, and id and record of the
--          first; or `superseded`, `forgotten`, `format <n>`, `levels <list>`, `again`, `full`.
-- Cost:    O(log n) a job; at most `want` jobs or `max_bytes` of records, 100 reclaimed, 4 * want + 100 promoted,
--          and where more than one level is in use 1,000; 1,100 entries that no longer count and 10 * want + 100 that are read.
-- Shortly after an outage `ahead` is 2 or 3 instead of 0 or 1: leases that are over are spared, because their workers may live and
-- were only not heard.
local spares = ahead > 1
-- without: what is fetched ahead after an outage counts as started
if spares then ahead = ahead - 2 end
--- include: call/once
-- with `if false then`: a reserve sent again leases other jobs
if earlier then
  -- without: a late copy of a reserve stops the script, or gives jobs to nobody
  if earlier == 'superseded' or earlier == 'forgotten' then return earlier end
  --- include: call/clock, reserve/granted_again
  return reply
end
--- include: call/meta
-- without: a reserve passes over levels and formats that it does not know
if refused then return refused end
--- include: call/clock, reserve/check_types, wake/one
--- if limited
--- include: history/events
--- end

local some_large = noted_large
-- with `if false then`: a queue asks for sizes for ever
if some_large and live == 0 then
  redis.call('HDEL', meta, 'large')
  some_large = nil
end
do
  --- include: reserve/set_back
end
local reclaim_cap, ended = '100'
--- if plain
local reply = { 'jobs', '', '', -1, 0, 0 }
--- else
local reply = { 'jobs', '', '', -1, 0, limits and 1 or (noted_history or noted_max_length) and 2 or 0 }
--- end
-- with `do`: the first look after an outage charges the jobs of workers that live
if not spares then
  --- include: reserve/find_ended
end
local some_ended = ended and #ended > 0
--- if usual
-- Nothing of what takes most of the text has been done: that text does it, under the same number.
-- without: a job whose worker died is never taken back
if some_ended then return 'full' end
--- end
local flags, next_item, is_full
if #ARGV >= first_item then
  --- include: settle/acks
end
--- if full
local has_others = flags and next_item <= #ARGV
if has_others or some_ended then
  --- include: back/coming_back
  if has_others then
    --- include: settle/others
  end
  if some_ended then
    -- without 3 lines: a job that was settled in this call is taken back as well
    if flags then
      --- include: reserve/find_ended
    end
    if #ended > 0 then
      --- include: back/reclaim_ended
    end
  end
  -- without: a job that comes back in the call that takes it seems never to have run
  some_came_back = true
end
--- end
local settled = flags and table.concat(flags) or ''
reply[2] = settled
-- Far more than are taken, because a level goes before another only among jobs that are promoted.
-- with `= 100000` for `= 4 * want + 100`: a million jobs due at once stall the server
local promote_cap = 4 * want + 100
-- without: an urgent job waits behind thousands that are due
if #levels > 1 then promote_cap = math.max(promote_cap, 1000) end
do
  --- include: reserve/promote_due
end

local paused = noted_paused == '1'
--- if limited
--- include: reserve/within_limits
--- else
local asked = want
--- end
--- include: reserve/next_token, reserve/take
--- if limited
--- include: history/keep
--- end
if granted > 0 then
  --- include: reserve/grant
  return reply
end
-- Idle workers do not write each time that they look; but where a copy of this call may come late, it must find that the
-- call was answered, or it would lease jobs to nobody.
-- without `or call_renew ~= '0'`: a late copy of a reserve that found nothing leases jobs to nobody
local is_kept = #settled > 0 or call_renew ~= '0'
reply[1] = paused and 'paused' or 'none'
if left_behind then
  -- So many entries that no longer count, that the jobs behind them were not reached: come back at once.
  wake_one()
  -- without: a worker sleeps while a job is ready behind cancelled ones
  if not paused then reply[1] = 'unfinished' end
  if is_kept then
    --- include: call/allow_growing
    answer(settled .. '  ')
  end
  return reply
end
--- include: reserve/none_granted
return reply
