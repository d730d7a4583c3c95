-- Puts a job at the head of its ready list, and counts that before: a search of ready jobs goes on by it (`search`), and may see too much, but
-- must not see too little.
-- Gives: `put_first`.
local function put_first(id, level)
  -- without: a search of ready jobs passes by those behind what came back
  redis.call('HINCRBY', meta, 'put_first', 1)
  redis.call('LPUSH', ready(level), id)
end
