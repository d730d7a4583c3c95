-- When a job is due: `` now, `+ms` from now, `@ms` at that time; nil when that is now or over.
-- Needs: what `call/clock` gives. Gives: `due_of`.
local function due_of(text)
  if text == '' then return nil end
  local ms = tonumber(string.sub(text, 2))
  -- with `ms = now + ms` for `ms = from + ms`: a job starts up to a millisecond early
  if string.byte(text, 1) == 43 and ms > 0 then ms = from + ms end
  -- without: a due job is delayed
  if ms <= now then return nil end
  return ms
end
