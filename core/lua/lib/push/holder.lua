-- Who holds this job's id or key already. Gives: `holder_of`.
local function holder_of(id, key)
  -- without: one id means two jobs
  if redis.call('HEXISTS', jobs, id) == 1 then return id end
  local holder = key and redis.call('HGET', keys, key)
  -- without: one key means two live jobs
  -- with `if holder then return holder end`: a key whose job is gone blocks for ever
  if holder and redis.call('HEXISTS', jobs, holder) == 1 then return holder end
  return nil
end
