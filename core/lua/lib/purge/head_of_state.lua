-- Looks at the head of a state before it is taken out.
-- Needs: what `call/meta` gives, `count_fitting`. Gives: `cut`, `is_cut`.
-- A foreign type under one of our keys stops it before the first write.
-- without: a foreign type under `jobs` loses the purged jobs' places
redis.call('HLEN', jobs)
-- without: a foreign type under `returned` leaves records that nobody hands out
redis.call('HLEN', returned)
-- without: a foreign type under `keys` leaves records that nobody hands out
redis.call('HLEN', keys)
-- without: a foreign type under `stale` leaves records that nobody hands out
redis.call('HLEN', stale)
-- without `redis.call('LLEN', ready(level))`: a foreign type under a list fails a purge by half
for level in string.gmatch(levels, '%d') do redis.call('LLEN', ready(level)) end
--- if limited
-- without: a foreign type under `parked` purges by half
if limits then redis.call('ZCARD', parked) end
--- end

-- Records are read for their keys and for who waits for their results, not more bytes of them than one call may read.
-- A hundred of those that nobody noted as large are as much at the most.
local bytes_left, is_cut, cut_from = 4194304, false, 0
local function cut(entries, ids)
  cut_from = cut_from + #entries
  -- with `if not noted_large then return end`: a purge of a thousand jobs reads ten times as much as a call may
  if not noted_large and cut_from <= 100 then return end
  local fitting
  fitting, bytes_left = count_fitting(ids or entries, bytes_left)
  for k = #entries, fitting + 1, -1 do
    -- with `is_cut = true`: a purge reads any number of large records
    entries[k], is_cut = nil, true
  end
end

