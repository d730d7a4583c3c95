-- The server's clock, read at most once a call: the only clock that decides anything.
local now, now_us

local function read_clock()
  local time = redis.call('TIME')
  now_us = time[1] * 1000000 + time[2]
  now = math.floor(now_us / 1000)
end
