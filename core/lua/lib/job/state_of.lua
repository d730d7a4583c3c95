-- Where a job is, its level and its key. A job that is in none of the three sets with members is in a ready list. The level
-- of an unreadable record is looked for, and nil when its job is ready.
-- Needs: `routing`, `delayed_member`. Gives: `state_of`.
local function state_of(id, record)
  local level, _, key, unreadable = routing(record)
  -- without: a cancelled delayed job stays in `delayed`
  if redis.call('ZSCORE', delayed, delayed_member(id, level)) then return 'delayed', level, key end
  -- without: a cancelled job's worker keeps its lease
  if redis.call('HEXISTS', leases, id) == 1 then return 'reserved', level, key end
  -- without: a cancelled failed job stays in `failed`
  if redis.call('ZSCORE', failed, id) then return 'failed', level, key end
  if not unreadable then return 'ready', level, key end
  for other = 0, 9 do
    level = string.format('%d', other)
    if redis.call('ZSCORE', delayed, delayed_member(id, level)) then return 'delayed', level, key end
  end
  return 'ready', nil, key
end
