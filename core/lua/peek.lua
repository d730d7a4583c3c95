-- One page of the jobs in a state, in the order in which they will be taken. Read-only.
-- Moves:   nothing.
-- Replies: {how many were looked at if the records are too large for more, else 0, where to go on or '', id, score or '', record,
--          came back, id, ...}; a ready entry that no longer counts is left out. Where to go on (`<level or p>;<index>;<offset>`) is
--          given when 2,000 entries of ready lists were passed by, and to who passes it. Behind that a job may be shown where an
--          earlier entry of it is, and once more where it is.
-- Cost:    O(offset + limit) for ready, O(log n + limit) else; at most 1,000 jobs, or 4 MiB of records. While a ready list has
--          entries that no longer count, `offset` counts jobs as far as 2,000 entries go, and entries behind them.
--- include: job/routing, job/delayed_member, job/state_of
local reply = { 0, '' }
local left, bytes = limit, 0
-- The job at the next index. Says whether there may be more.
local function add(id, score)
  left = left - 1
  local record = redis.call('HGET', jobs, id)
  if record then
    bytes = bytes + #record
    reply[#reply + 1] = id
    reply[#reply + 1] = score
    reply[#reply + 1] = record
    reply[#reply + 1] = redis.call('HGET', returned, id) or ''
  end
  -- without: a page of large jobs is read in one call
  if bytes >= 4194304 then reply[1] = limit - left end
  return reply[1] == 0
end

if state == 'ready' then
  -- A stale entry is the first of its id in its list, so its level's list is walked from the head when there are any.
  local some_stale = redis.call('HLEN', stale) > 0
  local walk = 2000
  local from, index, skip = string.match(cursor, '^(.);(%d+);(%d+)$')
  skip = tonumber(skip or offset)
  -- How many entries of each job no longer count is known from the head on only.
  local is_blind = from ~= nil
  local function go_on(where, at) reply[2] = string.format('%s;%.0f;%.0f', where, at, skip) end
  -- Then the last one counts, if any.
  local function is_elsewhere(id, level)
    local record = redis.call('HGET', jobs, id)
    if not record then return true end
    bytes = bytes + #record
    local its_state, its_level = state_of(id, record)
    return its_state ~= 'ready' or (its_level and its_level ~= level)
  end
  for level in string.gmatch(from == 'p' and '' or passed_levels, '%d') do
    local list = ready(level)
    -- with `= redis` for `= from and level < from and 0 or redis`: a page goes on in a level that it has shown
    local length = from and level < from and 0 or redis.call('LLEN', list)
    local at = from == level and tonumber(index) or 0
    local skipped = {}
    while left > 0 and at < length do
      -- without 4 lines: a page shows no job behind any number of cancelled ones
      if walk <= 0 and skip == 0 then
        go_on(level, at)
        return reply
      end
      -- with `if skip > 0 then`: a page hides the job that came again behind its own stale entry
      if skip > 0 and (not some_stale or walk <= 0 or is_blind) then
        -- without: a page hides a job whose stale entry was jumped over
        is_blind = true
        local jump = math.min(skip, length - at)
        at = at + jump
        skip = skip - jump
      end
      -- with `at + math.min(skip + left, 1000) - 1)` for `at + math.min(math.max(skip + left, some_stale and 100 or 1), 1000) - 1)`: a page of one job reads cancelled ones one by one
      local entries = redis.call('LRANGE', list, at, at + math.min(math.max(skip + left, some_stale and 100 or 1), 1000) - 1)
      local stale_counts = {}
      if some_stale and #entries > 0 then
        local fields = {}
        for k, id in ipairs(entries) do fields[k] = level .. ':' .. id end
        stale_counts = redis.call('HMGET', stale, unpack(fields))
      end
      local first = at
      at = at + math.max(1, #entries)
      walk = walk - #entries
      for k, id in ipairs(entries) do
        -- without: a page of one job shows all of a chunk
        if left <= 0 then break end
        local stale_count = tonumber(stale_counts[k] or 0) or 0
        -- with `if false then`: a page shows a cancelled entry as a job
        if (skipped[id] or 0) < stale_count and (not is_blind or is_elsewhere(id, level)) then
          skipped[id] = (skipped[id] or 0) + 1
          -- Records were read only where one was asked where it is.
          if bytes >= 4194304 then
            go_on(level, first + k)
            return reply
          end
        elseif skip > 0 then
          skip = skip - 1
        elseif not add(id, '') then
          if from then go_on(level, first + k) end
          return reply
        end
      end
    end
  end
  -- What limits of names hold back is taken when a place is free: nobody knows when, so it comes last.
  if left > 0 then
    local first = from == 'p' and tonumber(index) or skip
    -- with `true and {} or redis.call` for `redis.call`: a page hides held back jobs
    for k, id in ipairs(redis.call('ZRANGE', parked, first, first + left - 1)) do
      if not add(id, '') then
        if from then go_on('p', first + k) end
        return reply
      end
    end
  end
else
  local set = state == 'delayed' and delayed or state == 'reserved' and reserved or failed
  local members = redis.call('ZRANGE', set, offset, offset + limit - 1, 'WITHSCORES')
  for i = 1, #members, 2 do
    -- The last to fail are the first that somebody wants to see, but paging needs an order that does not shift.
    if not add(string.match(members[i], '^[^\t]*'), members[i + 1]) then return reply end
  end
end
return reply
