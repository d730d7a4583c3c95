-- A job that comes back goes to the head of its ready list; but where others of its name and level are parked, before those:
-- it is older. `number`: that of the place it had.
-- Gives: `to_head`.
--- include: job/put_first
--- if limited
--- include: limits/parked
local function to_head(id, level, number)
  -- without `and #first_parked(number, level, 1) > 0`: a job that came back is looked for where nothing else is
  -- with `if false then`: a job whose worker died waits behind all that its name's limit holds back
  if number and string.find(passed_levels, level, 1, true) and #first_parked(number, level, 1) > 0 then
    -- with `redis.call('HINCRBY'` for `-redis.call('HINCRBY'`: a job that comes back goes behind younger ones
    redis.call('ZADD', parked, turn_of(number, level, -redis.call('HINCRBY', meta, 'parked', 1)), id)
  else
    put_first(id, level)
  end
end
--- else
local to_head = put_first
--- end
