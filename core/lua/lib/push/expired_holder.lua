-- Whether nobody will run the jobs any more that hold the id and the key of a new one: they expired before a run of them began.
-- Needs: `now`, what `push/holder` gives. Gives: `has_expired`, of one job; `all_expired`, which counts them.
--- include: job/expiry
local function has_expired(id)
  local expiry = expiry_of(redis.call('HGET', jobs, id))
  -- without `and redis.call('HEXISTS', leases, id) == 0`: a push takes a job from its worker that began in time
  -- without `and redis.call('HEXISTS', returned, id) == 0`: a push takes the place of a job that has begun, and would run again
  return expiry and expiry <= now and redis.call('HEXISTS', leases, id) == 0 and redis.call('HEXISTS', returned, id) == 0
end
local function all_expired(key, holder)
  if not has_expired(holder) then return nil end
  local other = key and holder_of('', key)
  if not other or other == holder then return 1 end
  -- with `return 2`: a push that finds an expired job by its id removes the live one that has its key
  return has_expired(other) and 2
end
