-- What is handed out takes a place of its name; what is full is parked, out of the way of the others. A limit that was taken
-- away gives no places, or it would not be forgotten before its name has no job for a moment.
--- include: parked
local full, full_ids = {}, {}
for k = 1, fit do
  local own = limit_of[k]
  if is_full[k] then
    full[#full + 1] = own.number
    full_ids[#full] = entries[k]
  elseif own and records[k] then
    limited.start(own, 1)
    if not own.is_gone then
      place_pairs[#place_pairs + 1] = own.number
      place_pairs[#place_pairs + 1] = entries[k]
    end
  end
end
if #full > 0 then
  local turn = redis.call('HINCRBY', meta, 'parked', #full) - #full
  local pairs_of_full = {}
  for k, own in ipairs(full) do
    pairs_of_full[2 * k - 1], pairs_of_full[2 * k] = turn_of(own, level, turn + k), full_ids[k]
  end
  redis.call('ZADD', parked, unpack(pairs_of_full))
end
