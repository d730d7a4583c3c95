-- A clock that stands still until a test moves it (`meta.clock`, milliseconds). Never part of a normal client's scripts.
local now = tonumber(redis.call('HGET', meta, 'clock') or 0)
local now_text = string.format('%.0f', now)
local now_us = now * 1000
