-- The server's clock, read once a call: the only clock that decides anything.
-- Gives: `now_us`, `now`, `from`, `now_text`.
local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
local now = math.floor(now_us / 1000)
-- Spans are counted from the next whole millisecond, or they would end up to one too early.
local from = math.ceil(now_us / 1000)
-- As text, because the server turns each number argument into text anew, with seventeen digits.
local now_text = string.format('%.0f', now)
