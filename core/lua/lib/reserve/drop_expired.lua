-- Drops those jobs that have expired and were taken off their list.
-- Needs: what `reserve/find_expired` gives, `entries`, `fit`, `dropped`, `first_dropped`, `awaited`, `happened`. Gives: `dropped`, how many
-- went in this call; `first_dropped`, id and record of the first; and lists those for whose results somebody may wait.
--- include: job/keeps_result
local ids = {}
for k = 1, fit do
  local id, record = entries[k], expired[k]
  if record then
    ids[#ids + 1] = id
    -- without: an expired job blocks its key
    if key_of[k] then redis.call('HDEL', keys, key_of[k]) end
    -- without: who waits for a job that expires hears of it a second later
    if keeps_result(record) then awaited[#awaited + 1] = id end
    first_dropped = first_dropped or { id, record }
  end
end
if #ids > 0 then
  redis.call('HDEL', jobs, unpack(ids))
  redis.pcall('HINCRBY', stats, 'expired', #ids)
  happened('V', table.concat(ids, '\n'), #ids)
  dropped = dropped + #ids
end
