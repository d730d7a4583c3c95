-- What is handed out takes a place of its name; what is full is parked, out of the way of the others. A limit that was taken
-- away gives no places, or it would not be forgotten before its name has no job for a moment.
-- Needs: what `reserve/find_full` gives, `entries`, `records`, `fit`, `level`, `limited`, `place_pairs`. Gives: nothing but more of
-- those pairs.
--- include: limits/parked
local full, full_ids = {}, {}
for k = 1, fit do
  local own = limit_of[k]
  if is_full[k] then
    full[#full + 1] = own.number
    full_ids[#full] = entries[k]
  elseif own and records[k] then
    limited.start(own, 1)
    -- with `do`: a limit that was taken away is not forgotten while its name has jobs
    if not own.is_gone then
      -- without 2 lines: a running job holds no place
      place_pairs[#place_pairs + 1] = own.number
      place_pairs[#place_pairs + 1] = entries[k]
    end
  end
end
if #full > 0 then
  local turn = redis.call('HINCRBY', meta, 'parked', #full) - #full
  local pairs_of_full = {}
  for k, own in ipairs(full) do
    -- with `turn_of(own, level, 0)` for `turn_of(own, level, turn + k)`: held back jobs lose their order
    -- with `turn_of(own, 5, turn + k)` for `turn_of(own, level, turn + k)`: held back jobs lose their level
    pairs_of_full[2 * k - 1], pairs_of_full[2 * k] = turn_of(own, level, turn + k), full_ids[k]
  end
  -- without: what a limit of a name holds back is lost
  redis.call('ZADD', parked, unpack(pairs_of_full))
end
