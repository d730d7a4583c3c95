-- Removes whoever holds the id and the key of a new job.
-- Needs: `id`, `key`, `holder`, `entered` (the level of the new job if it is ready at once), `awaited`, `line`, `is_freed`,
-- `keeps_result`, `are_expired` (they go because they have expired), what `push/holder` and `job/remove` give, except in the plain text what `history/events` gives. Gives: `line`, `holder`, `is_freed`, and more of what is awaited.

-- The id may be that of one job and the key that of another: both are replaced.
local free_entry = entered
while holder do
  line = 'replaced ' .. holder
  local state, replaced = remove(holder, free_entry)
  -- One entry comes, so one may go.
  -- without: what is read from the end of a list is not all of it where one job replaces two
  free_entry = nil
  --- if limited
  -- with `'O'` for `are_expired and 'V' or 'O'`: the trace of a job that has expired says that it was replaced
  happened(are_expired and 'V' or 'O', holder, 1, id)
  -- without: nobody is woken for the place of a job that was replaced
  if state == 'reserved' then is_freed = true end
  --- end
  -- Whoever waits for a job of this very id waits for the new one now.
  -- without: who waits for a job that is replaced hears of it a second late
  if holder ~= id and keeps_result(replaced) then awaited[#awaited + 1] = '\nawaited ' .. holder end
  -- with `holder = nil`: of two jobs that hold the id and the key, one stays
  holder = holder_of(id, key)
end
