-- A page of another queue's jobs, which takes none of them.
-- Moves:   nothing.
-- Keys:    the other queue's list or sorted set; with `held` also the key that has its jobs.
-- Replies: {how many entries were read, 0 if there are no more; each job, from a sorted set with its score}; or `foreign <key>`: an entry
--          names this key, which holds no job.
-- Cost:    O(log n + from) and O(1) an entry: at most `most`, and no more after `most_bytes`.
--- include: bridge/old_page
local reply, seen, bytes = { 0 }, 0, 0
repeat
  local entries = page(from + seen, math.min(16, most - seen))
  for i = 1, #entries, width do
    local entry, foreign = entry_of(entries[i])
    -- without: an entry whose job nobody can read counts as one of a job that is gone
    if foreign then return 'foreign ' .. foreign end
    seen = seen + 1
    if entry then
      bytes = bytes + #entry
      reply[#reply + 1] = entry
      if width == 2 then reply[#reply + 1] = entries[i + 1] end
    end
    if bytes > most_bytes then break end
  end
until #entries == 0 or seen >= most or bytes > most_bytes
reply[1] = seen
return reply
