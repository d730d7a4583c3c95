-- Names the commands of duly's scripts that this user may not run: a script that is stopped in its middle is not undone.
-- Moves:   nothing: each command is given in a form that changes nothing, and the server looks at permissions first.
-- Replies: the names, with a space between.
-- Cost:    O(1), once a connection.
local key = KEYS[1]
local denied = {}
local function try(...)
  local reply = redis.pcall(...)
  local err = type(reply) == 'table' and reply.err
  local is_denied = err and (string.find(err, "can't run this command", 1, true) or string.find(err, 'permissions to run', 1, true))
  if is_denied then
    denied[#denied + 1] = (...)
    denied[(...)] = true
  end
  return not err
end
try('TIME')
try('DEL', key)
try('EXISTS', key)
try('GET', key)
try('HDEL', key, 'f')
try('HEXISTS', key, 'f')
try('HGET', key, 'f')
try('HGETALL', key)
try('HINCRBY', key, 'f', 'not a number')
try('HLEN', key)
try('HMGET', key, 'f')
try('HSET', key, 'f', 'v', 'a field without a value')
try('HSTRLEN', key, 'f')
try('HVALS', key)
try('LINDEX', key, '0')
try('LLEN', key)
try('LRANGE', key, '0', '0')
local removes = try('LREM', key, '1', 'm')
local expires = try('PEXPIRE', key, '1')
try('SET', key, 'v', 'NX', 'XX')
try('ZADD', key, 'XX', '0', 'm')
try('ZCARD', key)
try('ZCOUNT', key, '0', '0')
try('ZRANGE', key, '0', '0')
try('ZRANGEBYSCORE', key, '0', '0')
try('ZREM', key, 'm')
try('ZREMRANGEBYRANK', key, '0', '-1')
try('ZSCORE', key, 'm')
-- These two have no such form: what they add is taken away again, or else is not tried and named to be sure.
local trims = try('LTRIM', key, '1', '0')
if trims or removes or expires then
  try('LPUSH', key, 'm')
  try('RPUSH', key, 'm')
  redis.pcall('LREM', key, '0', 'm')
  redis.pcall('PEXPIRE', key, '0')
  redis.pcall('LTRIM', key, '1', '0')
elseif denied.LTRIM then
  denied[#denied + 1] = 'LPUSH'
  denied[#denied + 1] = 'RPUSH'
end
return table.concat(denied, ' ')
