-- Adds to a list of a limit: its number, how many jobs have a place under it, and what its rate has seen, or ''.
-- Gives: `add_usage`.
local function add_usage(list, limit)
  local number = limit.number
  local count = number == 0 and redis.call('ZCARD', reserved) or redis.call('ZCOUNT', places, number, number)
  local seen = limit.jobs and redis.call('HGET', meta, string.format('rate_at:%.0f', number))
  list[#list + 1] = number
  list[#list + 1] = count
  list[#list + 1] = seen or ''
end
