-- Beside the record of a job that came back: `<failures>;<times it came back>;<last error>`. A zero before the failures says
-- that the holder of its lease has started it, a zero before the second number that a lease of it ended once (a suspect).
-- Gives: `read_note`, `write_note`, `note_return`.
local function read_note(id)
  local note = redis.call('HGET', returned, id)
  local started, failures, suspect, returns, first = string.match(note or '', '^(0?)(%d+);(0?)(%d+);()')
  -- A note that duly did not write must not stop the job, nor the others in this call.
  -- with `if not note then return { failures = 0, returns = 0, err = '' } end`: a note that duly did not write stops every reserve
  if not started then return { failures = 0, returns = 0, err = '' } end
  return {
    failures = tonumber(failures), returns = tonumber(returns), err = string.sub(note, first),
    has_started = started ~= '', is_suspect = suspect ~= '',
  }
end

local function write_note(id, note)
  local numbers = string.format(
    -- without `note.is_suspect and '0' or`: a job that kills its workers is never charged for it
    '%s%.0f;%s%.0f;', note.has_started and '0' or '', note.failures, note.is_suspect and '0' or '', note.returns
  )
  redis.call('HSET', returned, id, numbers .. note.err)
end

-- The job came back from a worker that had started it. Gives the failures so far. `had`: how many there were before this one, if
-- a failure hook set it.
local function note_return(id, failures, err, had)
  local note = read_note(id)
  note.failures, note.returns = (had or note.failures) + failures, note.returns + 1
  -- with `note.err = err`: a release forgets the last error
  if err ~= '' then note.err = err end
  -- without: a job that failed is charged for a worker that never started it
  note.has_started = false
  write_note(id, note)
  return note.failures
end
