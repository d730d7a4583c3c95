-- Settles the outcomes behind the acks, each when its lease is still the granted one.
-- The others: (verb, id, token, key, delay in ms, error, '' or `<failures before>;<new record>`) each. The verbs:
-- retry: counts a failure, due again after the delay; again: the same without counting
-- release: to the head of its ready list, or due after the delay, not counted
-- unstarted: the same of a job that was only fetched ahead, so it has not come back from a run
-- failed: counts a failure and retries no more; the delay says which of `result_count` jobs it is, 0 if none of them
-- unheard: as failed, and no hook of a worker was called
-- expired: no run of it began in time, and it goes; the delay says the same as of a failed one
-- start: stays reserved, and its run is about to start; the delay says for how long the lease goes on if it is over, 0 for not at all
-- Needs: what `settle/acks`, `back/coming_back`, `call/meta` and `call/clock` give, `wake_one`, except in the plain text `took` and what
-- `history/events` gives. Gives: nothing but more flags.
--- include: wake/at, wake/waiters, job/delayed_member, settle/start
-- without: a foreign type under `delayed` loses the jobs to be retried
redis.call('ZCARD', delayed)
local entered_failed = 0
local released = {}
--- if limited
-- How many ms each run took, acks first.
local took_of = {}
for ms in string.gmatch(events and took or '', '[^,]+') do took_of[#took_of + 1] = ms end
local LETTER = { retry = 'T', again = 'G', release = 'B', unstarted = 'U', failed = 'F' }
--- end
for at = next_item, #ARGV, 7 do
  local verb, id, token, key = ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3]
  local delay, err, record = tonumber(ARGV[at + 4]), ARGV[at + 5], ARGV[at + 6]
  local is_unheard = verb == 'unheard'
  if is_unheard then verb = 'failed' end
  -- with `if not redis.call('HGET', leases, id) then`: a late fail or release takes a job from its worker
  -- with `if false then`: a late fail or release brings back a job that is gone
  if redis.call('HGET', leases, id) ~= token then
    flags[#flags + 1] = '0'
  -- with `elseif false then`: a start ends the lease
  elseif verb == 'start' then
    local may_run, was_known = note_start(id, delay)
    flags[#flags + 1] = may_run and '1' or '0'
    --- if limited
    if may_run and not was_known then happened('S', id, 1) end
    --- end
  else
    flags[#flags + 1] = '1'
    redis.call('ZREM', reserved, id)
    redis.call('HDEL', leases, id)
    --- if limited
    local number = limits and redis.call('ZSCORE', places, id)
    -- without: a failed or released job keeps its place for ever
    if number then redis.call('ZREM', places, id) end
    --- end
    local had, first
    -- with `true` for `record ~= ''`: a failure without a hook empties the record
    if record ~= '' then
      had, first = string.match(record, '^(%d+);()')
      record = string.sub(record, first)
      local size = is_full and redis.call('HSTRLEN', jobs, id) or 0
      -- with `if false then`: the records that failure hooks change let a full server grow
      if size > 0 and #record > size then
        -- As if its worker had died: it goes on with what it had.
        flags[#flags] = '2'
        record = redis.call('HGET', jobs, id)
      else
        redis.call('HSET', jobs, id, record)
        if #record > LARGE and not noted_large then redis.call('HSET', meta, 'large', '1') end
      end
    else
      record = redis.call('HGET', jobs, id)
    end
    if verb == 'expired' and record then
      redis.call('HDEL', jobs, id)
      -- without: notes of expired jobs stay for ever
      redis.call('HDEL', returned, id)
      -- without: an expired job blocks its key
      free_key(key, id)
      redis.pcall('HINCRBY', stats, 'expired', 1)
      -- with `false` for `delay > 0`: who waits for a job that expires hears of it a second later
      if delay > 0 then wake_waiters(done(delay, result_count), 60000) end
      --- if limited
      happened('V', id, 1)
      --- end
    elseif not record then
      -- The envelope was lost: there is nothing to run again.
      redis.call('HDEL', returned, id)
      free_key(key, id)
    else
      local level, _, own_key = routing(record)
      -- with `if false then`: what was only fetched ahead counts as a return
      if verb == 'unstarted' then
        forget_start(id)
      else
        -- with `1` for `(verb == 'retry' or verb == 'failed') and 1 or 0`: a release counts as a failure
        note_return(id, (verb == 'retry' or verb == 'failed') and 1 or 0, err, tonumber(had))
      end
      if verb == 'failed' then
        -- The record's key: who could not decode the record does not know it.
        -- with `enter_failed(id, key)`: an undecodable failed job blocks its key
        enter_failed(id, own_key)
        -- without: a job whose time was over fails in silence
        -- with `note_unheard(id)`: hooks are called twice
        if is_unheard then note_unheard(id) end
        entered_failed = entered_failed + 1
        -- with `false` for `delay > 0`: who waits for a job that fails hears of it a second later
        if delay > 0 then wake_waiters(done(delay, result_count), 60000) end
      elseif delay > 0 then
        -- with `now + delay` for `from + delay`: a retry starts up to a millisecond early
        redis.call('ZADD', delayed, from + delay, delayed_member(id, level))
        wake_for(from + delay)
      else
        -- without `or verb == 'unstarted'`: what was fetched ahead goes behind younger jobs
        -- with `if verb == 'unstarted' then`: a released job goes behind younger ones
        if verb == 'release' or verb == 'unstarted' then
          --- if limited
          released[#released + 1] = { id, level, number }
          --- else
          released[#released + 1] = { id, level }
          --- end
        else
          redis.call('RPUSH', ready(level), id)
        end
        wake_one()
      end
      --- if limited
      local due = verb ~= 'failed' and delay > 0 and string.format('%.0f', from + delay) or ''
      happened(LETTER[verb], id, 1, (took_of[#flags] or '-') .. ';' .. due .. ';' .. said_of(err))
      --- end
      redis.pcall('HINCRBY', stats, verb == 'retry' and 'retried' or verb == 'failed' and 'failed' or 'released', 1)
    end
  end
end
-- Each goes to the head of its list: the last one first keeps their order.
-- with `for i = 1, #released do` for `for i = #released, 1, -1 do`: jobs that are given back together are turned round
for i = #released, 1, -1 do to_head(unpack(released[i], 1, 3)) end
-- without: failed jobs pile up without bound
if entered_failed > 0 then trim_failed(entered_failed) end
