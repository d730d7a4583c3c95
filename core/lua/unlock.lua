-- Gives a lock up, also one that this owner only asked for: no late copy takes it for that owner. Wakes one who waits.
-- Moves:   nothing.
-- Replies: `1` it was held, `0` it was not, or is lost.
-- Cost:    O(1). Right when sent twice: it is given up already, and what was answered is known.
--- include: call/clock
-- As in `allow_growing`. It is the lock's key, so that each call has as few as it can: while a slot moves, servers refuse a call of
-- which one key is there and another is not.
-- without: a server without memory keeps locks until their time is over
redis.call('HDEL', lock, '')
local known = redis.call('HMGET', lock, 'owner', 'until', 'given_up')
local holder, held_until, given_up = unpack(known, 1, 3)
local at = string.find(given_up or '', owner, 1, true)
-- without: who sends a release again hears that the lock was lost
if at then return string.sub(given_up, at - 1, at - 1) == '+' and '1' or '0' end
--- include: lock/given_up
-- with `true` for `holder == owner`: who lost a lock gives up that of its new holder
local is_held = holder == owner
local left = holder and not is_held and math.max(0, tonumber(held_until) - now) or 0
-- without: a late copy takes the lock for an owner that has given it up
redis.call('HSET', lock, 'given_up', with_given_up(is_held and '+' or '-', owner))
-- without: locks stay for ever
redis.call('PEXPIRE', lock, left + 60000)
if not is_held then return '0' end
redis.call('HDEL', lock, 'owner', 'until', 'ttl')
-- A hint, of which one is enough. It says how long it lives, for who gives it back (`wake_line.rs`).
-- with `redis.call('LLEN', lock_wake)` for `redis.pcall('LLEN', lock_wake)`: a foreign type under `lock_wake` fails every release
-- with `if false then`: who waits for a lock hears a second later that it is free
if redis.pcall('LLEN', lock_wake) == 0 then
  redis.call('LPUSH', lock_wake, '3000ms')
  -- without: wake-ups that nobody takes stay for ever
  redis.call('PEXPIRE', lock_wake, 3000)
end
return '1'
