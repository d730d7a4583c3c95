-- Which jobs of a chunk have expired before a run of them began: they are no jobs of this call, and start nothing that a limit counts. By the
-- server's clock and by the caller's, whichever is behind: a server that takes over with a clock that is ahead drops no live job. Without limits
-- only a caller that has met such a job lately asks for it (`sweeps`): to look for them costs the server a twelfth of all that a reserve of a
-- hundred does.
-- Needs: `entries`, `records`, `length`, `now`, `called_at`, `some_came_back`, `dropped_bytes`, `expired`, `key_of`. Gives: `expired`, the record of each, by its place
-- in the chunk; `key_of`, the keys that these hold; `dropped_bytes`; and takes theirs out of the records.
--- include: job/expiry, job/routing
expired, key_of = {}, {}
for k = 1, length do
  local id, record = entries[k], records[k]
  local expiry = record and expiry_of(record)
  -- without `expiry <= now and`: a caller whose clock runs ahead drops a live job
  -- without `and expiry <= called_at`: a server whose clock runs ahead drops a live job
  -- without `and redis.call('HEXISTS', returned, id) == 1`: a job that expires keeps its place for ever where another came back
  if expiry and expiry <= now and expiry <= called_at and not (some_came_back and redis.call('HEXISTS', returned, id) == 1) then
    local _, _, key = routing(record)
    -- without `and redis.call('HGET', keys, key) == id`: an expired job frees a key that another one holds
    if key and redis.call('HGET', keys, key) == id then key_of[k] = key end
    -- without: one reserve reads any number of large records only to drop them
    dropped_bytes = dropped_bytes + #record
    expired[k], records[k] = record, false
  end
end
