-- The id that an operator means: the id itself, or the live job that holds a key.
-- Gives: `resolve`.
local function resolve(value)
  if by == 'key' then return redis.call('HGET', keys, value) end
  return value
end
