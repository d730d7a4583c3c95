-- A queue may have a length: so many jobs at the most that are not in `failed`.
-- Needs: what `call/meta` gives. Gives: `room_left`, how many more jobs fit; nothing where there is no length.
-- A client that knows of no length has taken it away with the limits.
-- with `tonumber(noted_max_length or nil)`: a length that nobody shows refuses the pushes of some clients
local room_left = tonumber(noted_limits and noted_max_length or nil)
if room_left then room_left = math.max(0, room_left - redis.call('HLEN', jobs) + redis.call('ZCARD', failed)) end
