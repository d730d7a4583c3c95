-- When a job expires, in ms; nil if it does not. The last fields of its record say so: data that end like this end with a brace more.
-- Gives: `expiry_of`.
local function expiry_of(record)
  if not string.find(record, '"v":2,"expires":', -96, true) then return end
  local tail = string.sub(record, -96)
  local at = string.match(tail, '"v":2,"expires":([%d.]+)}$')
    or string.match(tail, '"v":2,"expires":([%d.]+),"result_ttl":[%d.]+}$')
  return at and tonumber(at) * 1000
end
