-- Beside the record of a job that came back: `<failures>;<times it came back>;<last error>`. Gives the failures so far.
-- `had`: how many there were before this one, if a failure hook set it.
local function note_return(id, failures, err, had)
  local attempts, returns, last_error = 0, 0, ''
  local note = redis.call('HGET', returned, id)
  if note then
    local a, r, first = string.match(note, '^(%d+);(%d+);()')
    -- A note that duly did not write must not stop the job, nor the others in this call.
    if a then attempts, returns, last_error = tonumber(a), tonumber(r), string.sub(note, first) end
  end
  attempts = (had or attempts) + failures
  if err == '' then err = last_error end
  redis.call('HSET', returned, id, string.format('%.0f;%.0f;', attempts, returns + 1) .. err)
  return attempts
end
