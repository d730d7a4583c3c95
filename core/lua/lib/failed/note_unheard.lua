-- Most workers call their hooks for a job before they say that it failed. One that failed otherwise waits in line in `meta`, until
-- a worker takes it (`hear.lua`): ten thousand at the most, so that a queue without workers does not grow.
-- Gives: `note_unheard`.
local function note_unheard(id)
  local last = redis.pcall('HINCRBY', meta, 'unheard_last', 1)
  if type(last) ~= 'number' then return end
  redis.call('HSET', meta, string.format('unheard:%.0f', last), id)
  if last > 10000 then redis.call('HDEL', meta, string.format('unheard:%.0f', last - 10000)) end
end
