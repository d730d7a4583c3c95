-- The line of unheard jobs: `meta` has those behind `heard_to`, up to `last`, under their numbers.
-- Gives: `last`, `heard_to`.
local line = redis.call('HMGET', meta, 'unheard_last', 'heard_to')
local last = tonumber(line[1] or 0)
local heard_to = math.max(tonumber(line[2] or 0), last - 10000)
