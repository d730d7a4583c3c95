-- The line of unheard jobs: `meta` has those behind `heard_to`, up to `last`, under their numbers.
-- Gives: `last`, `heard_to`.
local noted_last, noted_heard = unpack(redis.call('HMGET', meta, 'unheard_last', 'heard_to'))
local last = tonumber(noted_last or 0)
local heard_to = math.max(tonumber(noted_heard or 0), last - 10000)
