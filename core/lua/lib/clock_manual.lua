-- A clock that stands still until a test moves it (`meta.clock`, milliseconds). Never part of a normal client's scripts.
local now, now_us

local function read_clock()
  now = tonumber(redis.call('HGET', meta, 'clock') or 0)
  now_us = now * 1000
end
