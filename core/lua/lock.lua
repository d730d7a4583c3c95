-- Takes a lock for `ttl_ms`, if it is free. `again`: `1` if a copy of this call may have been executed, or may be yet.
-- Moves:   nothing.
-- Replies: {its token, or '' if another one has it; ms until it is free unless it is renewed; the server's time in ms};
--          `given up` if this owner has given it up, or was too late to renew it.
-- Cost:    O(1). Right when sent twice: its owner has it already, or has given it up.
--- include: call/clock
local known = redis.call('HMGET', lock, 'owner', 'token', 'until', 'ttl', 'given_up')
local holder, last_token, held_until, held_for, given_up = unpack(known, 1, 5)
-- without: a late copy takes the lock for an owner that has given it up
if given_up and string.find(given_up, owner, 1, true) then return 'given up' end
--- include: lock/given_up
local left = holder and tonumber(held_until) - now or 0
-- with `if false then`: a lock lasts longer when the clock is set back
if holder and left > tonumber(held_for) + 1 then
  left = tonumber(held_for)
  redis.call('HSET', lock, 'until', string.format('%.0f', from + left))
end
-- with `if left > 0 then` for `if left > 0 and holder ~= owner then`: a call that is sent again does not find the lock that it has taken
if left > 0 and holder ~= owner then
  -- with `if false then`: a copy that comes behind this answer takes the lock for an owner that has gone
  if again == '1' then
    -- without: a server without memory refuses to say that a lock is held
    redis.call('HDEL', lock, '')
    redis.call('HSET', lock, 'given_up', with_given_up('-', owner))
  end
  return { '', string.format('%.0f', left), now_text }
end
local token = last_token
-- with `do`: the token of a lock changes while it is held
if holder ~= owner then
  -- with `now_us` for `math.max(now_us, tonumber(last_token or 0) + 1)`: a token is not greater than the one before
  token = string.format('%.0f', math.max(now_us, tonumber(last_token or 0) + 1))
  -- Its holder did not renew it in time.
  -- without: a late copy takes the lock for an owner that was too late to renew it
  if holder then given_up = with_given_up('-', holder) end
end
redis.call('HSET', lock, 'owner', owner, 'token', token, 'until', string.format('%.0f', from + ttl_ms), 'ttl', ttl_ms,
  'given_up', given_up or '')
-- Its token and who has given it up are needed longer than it is held.
-- without: locks stay for ever
redis.call('PEXPIRE', lock, ttl_ms + 60000)
return { token, string.format('%.0f', ttl_ms), now_text }
