-- The run of a job is about to start: whatever ends its lease from now on is its own fault. Not where the lease is over, though
-- nobody took the job yet: the next reserve would charge a job whose run has not begun.
local function note_start(id)
  if tonumber(redis.call('ZSCORE', reserved, id) or 0) <= now then return false end
  local note = read_note(id)
  note.has_started = true
  --- include: room_first
  write_note(id, note)
  return true
end

-- The job goes back without a run, whatever was said of it.
local function forget_start(id)
  local note = read_note(id)
  if note.has_started then
    note.has_started = false
    write_note(id, note)
  end
end
