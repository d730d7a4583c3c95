-- Sets the end of leases that are still held to `lease_ms` from now. One that is over is held until somebody reclaims it: after an
-- outage its worker goes on.
-- Moves:   nothing.
-- Replies: one character a lease: `1` extended, `0` the lease was lost; or `format <n>`, `again`.
-- Cost:    O(log n) a lease, at most 1,000 a call. Right when sent twice: the end is counted from now.
local noted_format, last_token = unpack(redis.call('HMGET', meta, 'format', 'token'))
--- include: call/newer_format
-- with `call/clock` for `call/clock, call/allow_growing`: a server without memory lets leases end
--- include: call/clock, call/allow_growing
do
  --- include: reserve/set_back
end
local flags = {}
for at = first_item, #ARGV, 2 do
  local id, token = ARGV[at], ARGV[at + 1]
  -- with `true` for `redis.call('HGET', leases, id) == token`: a worker that lost its lease extends another's
  local held = redis.call('HGET', leases, id) == token
  -- with `'XX', now + lease_ms` for `'XX', from + lease_ms`: an extended lease ends up to a millisecond early
  if held then redis.call('ZADD', reserved, 'XX', from + lease_ms, id) end
  flags[#flags + 1] = held and '1' or '0'
end
return table.concat(flags)
