-- How far the runs of these jobs have come. Read-only.
-- Moves:   nothing.
-- Replies: for each id what was noted of it, or '' if nothing was by whoever holds its lease.
-- Cost:    O(1) a job, at most 1,000 a call.
local reply = {}
for i = 1, progress_count do
  local noted = redis.call('GET', progress(i, progress_count))
  local token = redis.call('HGET', leases, ARGV[first_item + i - 1])
  -- with `true` for `string.sub(noted, 1, #token + 1) == token .. ';'`: progress of an earlier run is shown
  local is_current = noted and token and string.sub(noted, 1, #token + 1) == token .. ';'
  reply[i] = is_current and noted or ''
end
return reply
