-- A limit of a name that was taken away is kept until the last job that it parked, or that has a place, is gone; then it is
-- forgotten here. A queue that lost its `meta` finds what its limits left behind, and treats it as if they were taken away.
-- Needs: `noted_history`, `noted_max_length`. Gives: `live_limits`, `write_limits`, `MOST_NUMBERS`.
local MOST_NUMBERS = 200
local function live_limits(listed)
  --- include: limits/parked
  local function is_used(number)
    -- without `or #first_parked(number, nil, 1) > 0`: what a limit held back is forgotten with its last running job
    -- without `redis.call('ZCOUNT', places, number, number) > 0 or`: a running job keeps its place under the number that another name gets
    return redis.call('ZCOUNT', places, number, number) > 0 or #first_parked(number, nil, 1) > 0
  end
  local live = {}
  if listed == '?' then
    for number = 1, redis.call('EXISTS', parked, places) > 0 and MOST_NUMBERS or 0 do
      -- without: a queue that lost its meta hides what its limits held back
      if is_used(number) then live[#live + 1] = string.format('%.0f;;;', number) end
    end
  else
    for line in string.gmatch(listed, '[^\n]+') do
      local number, limit = string.match(line, '^(%d+);([%d:]*;[%d:]*);')
      -- with `limit ~= ';'` for `(limit ~= ';' or is_used(number))`: what a limit held back that was taken away is never found again
      -- without `and (limit ~= ';' or is_used(number))`: limits that were taken away cost every reserve for ever
      if limit and (limit ~= ';' or is_used(number)) then live[#live + 1] = line end
    end
  end
  return #live > 0 and table.concat(live, '\n')
end

local function write_limits(listed)
  -- Begins with what cannot grow: a server without memory must not stop a reserve. One that dies behind it must not have lost the limits.
  local noted = listed or (noted_history or noted_max_length) and ''
  redis.call('HDEL', meta, noted and '' or 'limits')
  -- with `if listed then` for `if noted then`: a queue whose limits are taken away keeps no history any more
  if noted then redis.call('HSET', meta, 'limits', noted) end
  if not listed then redis.call('HDEL', meta, 'parked') end
end
