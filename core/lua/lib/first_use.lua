-- Writes down the format, and the levels that the caller is going to use.
local function note_levels()
  if known[1] and levels == passed_levels then return end
  redis.call('HSET', meta, 'format', FORMAT, 'levels', passed_levels)
  levels = passed_levels
end
