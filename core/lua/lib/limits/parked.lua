-- `parked` holds the ready jobs whose name is at its limit, by number of the name, level, and the order in which they came: so
-- one finds the next ones of a name and level, and an id can be taken out from anywhere. 42 bits are for the order; they begin
-- in the middle, for what goes to the front.
-- Gives: `TURNS`, `first_parked`, `turn_of`.
local TURNS = 4398046511104

-- The next jobs of this name that are parked; without a level, of any.
local function first_parked(number, level, count)
  local from = (number * 10 + (level or 0)) * TURNS
  local to = from + (level and 1 or 10) * TURNS
  return redis.call('ZRANGEBYSCORE', parked, string.format('%.0f', from), string.format('(%.0f', to), 'LIMIT', '0', count)
end

local function turn_of(number, level, turn) return string.format('%.0f', (number * 10 + level + 0.5) * TURNS + turn) end
