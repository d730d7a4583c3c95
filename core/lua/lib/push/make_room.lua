-- Removes whoever holds the id and the key of a new job.
-- Needs: `id`, `key`, `holder`, `awaited`, `line`, `is_freed`, `keeps_result`, what `push/holder` and `job/remove` give. Gives:
-- `line`, `holder`, `is_freed`, and more of what is awaited.

-- The id may be that of one job and the key that of another: both are replaced.
while holder do
  line = 'replaced ' .. holder
  local state, replaced = remove(holder, true)
  --- if limited
  -- without: nobody is woken for the place of a job that was replaced
  if state == 'reserved' then is_freed = true end
  --- end
  -- Whoever waits for a job of this very id waits for the new one now.
  -- without: who waits for a job that is replaced hears of it a second late
  if holder ~= id and keeps_result(replaced) then awaited[#awaited + 1] = '\nawaited ' .. holder end
  -- with `holder = nil`: of two jobs that hold the id and the key, one stays
  holder = holder_of(id, key)
end
