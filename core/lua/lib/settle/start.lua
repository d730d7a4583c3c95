-- The run of a job is about to start: whatever ends its lease from now on is its own fault. Where the lease is over, though nobody
-- took the job yet, it goes on for `more_ms`. If that is 0 the job is not started: the next reserve would charge a job whose run
-- has not begun.
-- Needs: `now`, `from`, what `back/note` gives. Gives: `note_start`, which says whether it may run, and whether that was known;
-- `forget_start`.
local function note_start(id, more_ms)
  local ends = tonumber(redis.call('ZSCORE', reserved, id) or 0)
  if ends <= now then
    -- without `more_ms == 0 or`: a job is charged whose worker came too late to start it
    if more_ms == 0 or ends == 0 then return false end
    --- include: call/allow_growing
    -- without: a job that was started behind an outage is given to another worker
    redis.call('ZADD', reserved, 'XX', from + more_ms, id)
  end
  local note = read_note(id)
  if note.has_started then return true, true end
  note.has_started = true
  -- without: a server without memory starts no suspect
  --- include: call/allow_growing
  write_note(id, note)
  return true
end

-- The job goes back without a run, whatever was said of it.
local function forget_start(id)
  local note = read_note(id)
  -- with `do`: a job that was only fetched ahead leaves a note
  if note.has_started then
    -- without: a job that was given back unstarted is charged for the next worker
    note.has_started = false
    write_note(id, note)
  end
end
