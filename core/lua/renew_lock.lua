-- Sets the end of a lock that is still held to `ttl_ms` from now. One whose time is over is held until another one takes it.
-- Moves:   nothing.
-- Replies: `1` renewed, `0` it is lost.
-- Cost:    O(1). Right when sent twice: the end is counted from now.
--- include: call/clock
-- with `false` for `redis.call('HGET', lock, 'owner') ~= owner`: who lost a lock renews it for its new holder
if redis.call('HGET', lock, 'owner') ~= owner then return '0' end
-- without: a server without memory lets locks end
redis.call('HDEL', lock, '')
redis.call('HSET', lock, 'until', string.format('%.0f', from + ttl_ms), 'ttl', ttl_ms)
-- without: a lock that is renewed is forgotten
redis.call('PEXPIRE', lock, ttl_ms + 60000)
return '1'
