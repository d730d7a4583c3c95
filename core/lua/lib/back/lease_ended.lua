-- Who pays for a lease that ended. It counts as a failure of a job that had started, or a job that kills its worker would kill
-- one after the other: one that was reserved by hand, and one whose worker said so. All others had only been fetched ahead, as far
-- as anybody knows, and are not charged. But from then on each is a suspect, of which its workers say when it starts, so that a job
-- pays from the second worker on that it kills, and no other job ever does. One that had expired when it was fetched is no suspect: its worker
-- drops it, or has said that it starts.
-- Needs: `AHEAD`, what `back/note` gives. Gives: `lease_ended`.
--- include: job/expiry
local ENDED = 'lease ended: the worker died, hung or lost the server'
local NOT_COUNTED = ENDED .. '; not counted, because the job may not have started'
local UNKNOWN = 'lease ended: worker died, outcome unknown'

-- Says whether the job has no retries left, and why it failed.
local function lease_ended(id, token, max_retries, record)
  local note = read_note(id)
  -- with `tonumber(token)` for `(tonumber(token) or 1)`: a lease without a token stops every reserve
  local is_ahead = (tonumber(token) or 1) % AHEAD == 0
  -- with `do`: innocent jobs pay for the worker that held them
  -- without `not is_ahead or`: a job that kills who reserves by hand is never charged
  if not is_ahead or note.has_started then
    note.failures, note.returns = note.failures + 1, note.returns + 1
    note.err = max_retries == 0 and UNKNOWN or ENDED
    -- with `note.is_suspect = true`: a start outlives its lease
    note.has_started, note.is_suspect = false, true
    write_note(id, note)
    -- with `return false`: a job that kills its workers runs for ever
    -- with `> max_retries + 1` for `> max_retries`: a job that kills its workers gets one more
    return note.failures > max_retries, note.err
  end
  local expiry = expiry_of(record)
  -- One that has begun runs, however late it is.
  local has_begun = note.is_suspect or note.failures > 0 or note.returns > 0
  -- Tokens are µs.
  -- without: a job that had expired when it was fetched by a worker that died seems to have begun, and runs
  -- without `not has_begun and`: a job that kills its workers behind its expiry is never charged for it
  if expiry and not has_begun and tonumber(token) and token / 1000 >= expiry then return false end
  -- A suspect, and a job without retries, is known not to have started.
  -- with `note.err = NOT_COUNTED`: a job that is known not to have started says that it may have
  if not note.is_suspect and max_retries > 0 then note.err = NOT_COUNTED end
  -- without: a job that kills its workers is never charged for it
  note.is_suspect = true
  write_note(id, note)
  return false
end
