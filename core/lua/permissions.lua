-- Names the commands of duly's scripts that this user may not run, and with a '?' in front those that the server does not
-- know: a script that is stopped in its middle is not undone.
-- Moves:   nothing: each command is given in a form that changes nothing, and the server looks at permissions first. The
--          key is not declared, and nobody else's: so it may be in a slot of another server, or not be permitted.
-- Replies: the names, with a space between.
-- Cost:    O(1), once a connection.
local missing, is_missing = {}, {}
local function miss(name, mark)
  missing[#missing + 1] = mark .. name
  is_missing[name] = true
end
local function try(...)
  local reply = redis.pcall(...)
  local err = type(reply) == 'table' and reply.err
  if not err then return end
  if string.find(err, "can't run this command", 1, true) or string.find(err, 'permissions to run', 1, true) then
    miss((...), '')
  elseif string.find(err, 'nknown', 1, true) and string.find(err, 'command', 1, true) then
    miss((...), '?')
  end
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
try('LREM', key, '1', 'm')
try('LTRIM', key, '1', '0')
try('PEXPIRE', key, '1')
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
if is_missing.DEL and is_missing.LREM and is_missing.LTRIM and is_missing.PEXPIRE then
  miss('LPUSH', '')
  miss('RPUSH', '')
else
  try('LPUSH', key, 'm')
  try('RPUSH', key, 'm')
  redis.pcall('DEL', key)
  redis.pcall('LREM', key, '0', 'm')
  redis.pcall('LTRIM', key, '1', '0')
  redis.pcall('PEXPIRE', key, '0')
end
return table.concat(missing, ' ')
