-- A clock that stands still until a test moves it (`meta.clock`, milliseconds, perhaps with decimals). Never part of a normal
-- client's scripts.
-- Gives: what `call/clock` gives.
local now_us = math.floor(tonumber(redis.call('HGET', meta, 'clock') or 0) * 1000 + 0.5)
local now = math.floor(now_us / 1000)
local from = math.ceil(now_us / 1000)
local now_text = string.format('%.0f', now)
