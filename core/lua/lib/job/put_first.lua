-- Puts a job at the head of its ready list, and counts that: a search of ready jobs goes on by it (`search`).
-- Gives: `put_first`.
local function put_first(id, level)
  redis.call('LPUSH', ready(level), id)
  -- without: a search of ready jobs passes by those behind what came back
  redis.call('HINCRBY', meta, 'put_first', 1)
end
