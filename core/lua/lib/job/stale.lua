-- Is this entry at the head of a ready list one that no longer counts? Then it is counted off.
-- Gives: `skip_stale`.
local function skip_stale(level, id)
  local field = level .. ':' .. id
  local count = tonumber(redis.call('HGET', stale, field) or 0)
  -- without: a job that counts is skipped and lost
  if count == 0 then return false end
  -- without: a job that comes again is skipped and lost
  if count == 1 then redis.call('HDEL', stale, field) else redis.call('HINCRBY', stale, field, -1) end
  redis.call('HINCRBY', meta, 'stale_entries', -1)
  return true
end
