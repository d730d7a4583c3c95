-- Which jobs of a chunk have a name with a limit, and of which the name is full: those are parked, and are no jobs of this call.
-- What was parked under a number that is no more that of its name counts by its name from now on.
-- Needs: `records`, `length`, `limited`, `parked_bytes`, `limit_of`, `is_full`. Gives: `parked_bytes`, `limit_of`, `is_full`, and
-- takes those that are full out of the records.
--- include: job/routing
limit_of, is_full = {}, {}
local in_chunk = {}
for k = 1, length do
  local record = records[k]
  local _, _, _, _, name = routing(record or '{')
  local own = name and limited.by_name[name]
  if own then
    limit_of[k] = own
    in_chunk[own] = (in_chunk[own] or 0) + 1
    -- with `if false then`: limits of names limit nothing
    if limited.room(own) < in_chunk[own] then
      in_chunk[own] = in_chunk[own] - 1
      -- without: one reserve reads any number of large records only to put them aside
      parked_bytes = parked_bytes + #record
      -- with `is_full[k] = true`: a job that is full runs all the same
      is_full[k], records[k] = true, false
    end
  end
end
