-- Beside the record of a job that came back: `<failures>;<times it came back>;<last error>`.
local function came_back(id)
  local note = redis.call('HGET', returned, id)
  if not note then return 0, 0, '' end
  local attempts, returns, first = string.match(note, '^(%d+);(%d+);()')
  return tonumber(attempts), tonumber(returns), string.sub(note, first)
end

local function note_return(id, failures, err)
  local attempts, returns, last_error = came_back(id)
  if err == '' then err = last_error end
  redis.call('HSET', returned, id, integer(attempts + failures) .. ';' .. integer(returns + 1) .. ';' .. err)
end
