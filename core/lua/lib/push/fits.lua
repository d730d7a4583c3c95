-- A queue may have a length: so many jobs at the most that are not in `failed`.
-- Needs: what `call/meta` gives. Gives: `room_left`, how many more jobs fit; nothing where there is no length.
local room_left = tonumber(noted_max_length or nil)
if room_left then room_left = math.max(0, room_left - redis.call('HLEN', jobs) + redis.call('ZCARD', failed)) end
