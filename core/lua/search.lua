-- The next of the jobs in a state that match a filter, and how far it looked. Read-only.
-- Moves:   nothing.
-- Replies: {how many were looked at, how many entries that no longer count were passed by, how many bytes were read, where to go on or '', id, score or '', record or name, came back, id, ...};
--          of a ready list the last come first, because jobs are taken from its head meanwhile; a job may come again while jobs move.
--          Where to go on in a ready list is `<level>;<entries that are left at its head>-<jobs that were put at heads so far>;<id behind them>`.
-- Cost:    O(log^2 n), and O(1) for each of at most `look` entries, or 4 MiB of records and errors. Deep in a ready list it skips to where it goes on;
--          if jobs were taken, or came back, it looks for that place among at most 5,000 entries.
--- include: job/routing, job/delayed_member, job/state_of
local reply = { 0, 0, 0, '' }
local looked, passed, left, bytes = 0, 0, limit, 0
local some_stale = state == 'ready' and redis.call('HLEN', stale) > 0

-- Adds the job if it matches. The cheaper look comes first.
local function look_at(id, score, list_level)
  local record
  -- A ready list may have an entry of a job that has left it: then that one is counted.
  if some_stale and list_level and redis.call('HEXISTS', stale, list_level .. ':' .. id) == 1 then
    record = redis.call('HGET', jobs, id)
    local its_state, its_level = 'gone'
    if record then
      bytes = bytes + #record
      its_state, its_level = state_of(id, record)
    end
    -- without 4 lines: a search finds a job in a list that it has left
    if its_state ~= 'ready' or (its_level and its_level ~= list_level) then
      passed = passed + 1
      return
    end
  end
  looked = looked + 1
  local came_back = redis.call('HGET', returned, id) or ''
  -- without: a page of a search by error that finds little reads any number of long errors
  bytes = bytes + #came_back
  if error_has ~= '' then
    local error_at = string.match(came_back, '^%d+;%d+;()')
    -- with `came_back, error_has, 1, true)` for `came_back, error_has, error_at, true)`: a search for `1` finds each job that failed once
    if not error_at or not string.find(came_back, error_has, error_at, true) then return end
  end
  if not record then
    record = redis.call('HGET', jobs, id)
    if not record then return end
    -- without: a search reads any number of large records
    bytes = bytes + #record
  end
  local level, _, key, unreadable, name = routing(record)
  if name_is ~= '' and name ~= name_is then return end
  if key_begins ~= '' and string.sub(key or '', 1, #key_begins) ~= key_begins then return end
  -- without `or unreadable`: a record of which nothing is known has the default priority
  if level_is ~= '' and (level ~= level_is or unreadable) then return end
  left = left - 1
  reply[#reply + 1] = id
  reply[#reply + 1] = score
  reply[#reply + 1] = brief == 1 and (name or '') or record
  reply[#reply + 1] = came_back
end

local function is_enough() return looked + passed >= look or left <= 0 or bytes >= 4194304 end

-- By bytes, as the server orders members; `>` of Lua goes by its locale.
local function is_behind(one, other)
  for i = 1, math.min(#one, #other) do
    local byte, its_byte = string.byte(one, i), string.byte(other, i)
    if byte ~= its_byte then return byte > its_byte end
  end
  return #one > #other
end

-- The index of the first member behind this one, which may have left the set meanwhile.
local function index_behind(set, score, member)
  local low = redis.call('ZCOUNT', set, '-inf', '(' .. score)
  local high = redis.call('ZCOUNT', set, '-inf', score)
  while low < high do
    local middle = math.floor((low + high) / 2)
    if is_behind(redis.call('ZRANGE', set, middle, middle)[1], member) then high = middle else low = middle + 1 end
  end
  return low
end

-- Says whether it came to the end.
local function search_set(set, mark, score, member)
  -- with `0` for `at_from == '' and 0 or redis.call('ZCOUNT', set, '-inf', '(' .. at_from)`: a search finds jobs from before its time
  local first = at_from == '' and 0 or redis.call('ZCOUNT', set, '-inf', '(' .. at_from)
  local behind = at_until == '' and redis.call('ZCARD', set) or redis.call('ZCOUNT', set, '-inf', '(' .. at_until)
  if member then first = math.max(first, index_behind(set, score, member)) end
  while first < behind do
    local members = redis.call('ZRANGE', set, first, math.min(first + 99, behind - 1), 'WITHSCORES')
    for i = 1, #members, 2 do
      -- A tab in a member is the level's mark.
      look_at(string.match(members[i], '^[^\t]*'), mark == '' and members[i + 1] or '')
      if is_enough() then
        reply[4] = mark .. members[i + 1] .. ';' .. members[i]
        return false
      end
    end
    first = first + #members / 2
  end
  return true
end

-- How many jobs were put at the heads of ready lists so far.
local put_first_by_now = state == 'ready' and (tonumber(redis.call('HGET', meta, 'put_first') or 0) or 0)

-- How many entries of the list are still to be looked at. A page has left the first `before` of them, in front of `last`, when so many had
-- been `put_first`. Pushed jobs come behind them and jobs are taken from the head, so now it is at most so many and those that were put at
-- heads since, of all lists. Where `last` is shows how many it is. It is not looked for where it may have more entries than one: behind
-- an older one, jobs would be in no page.
local function before_now(list, length, level, before, put_first, last)
  -- with `before` for `before + put_first_by_now - put_first`: jobs are in no page where others have come back to the head
  local most = before + put_first_by_now - put_first
  -- with `false` for `put_first_by_now < put_first`: jobs are in no page where that number was lost
  if put_first_by_now < put_first then most = length end
  most = math.min(most, length)
  if most == 0 or redis.call('LINDEX', list, most) == last then return most end
  -- with `if false then`: pages never end beside workers that take as many jobs as one has, and give them back
  if redis.call('HEXISTS', stale, level .. ':' .. last) == 0 then
    -- with `math.max(1, most - 1000)` for `math.max(1, most - 5000)`: pages never end beside workers that give back very many jobs
    for behind = most, math.max(1, most - 5000), -1000 do
      local from = math.max(0, behind - 1000)
      local entries = redis.call('LRANGE', list, from, behind - 1)
      for k = #entries, 1, -1 do
        if entries[k] == last then return from + k - 1 end
      end
    end
  end
  return most
end

-- From its end to its head; or from where a page ended.
local function search_list(level, before, put_first, last)
  local list = ready(level)
  local length = redis.call('LLEN', list)
  before = before and before_now(list, length, level, before, put_first, last) or length
  while before > 0 do
    local entries = redis.call('LRANGE', list, math.max(0, before - 100), before - 1)
    for i = #entries, 1, -1 do
      before = before - 1
      look_at(entries[i], '', level)
      if is_enough() then
        reply[4] = level .. ';' .. string.format('%.0f-%.0f', before, put_first_by_now) .. ';' .. entries[i]
        return false
      end
    end
  end
  return true
end

local mark, score, member = string.match(cursor, '^(p?)([^;]*);(.*)$')
local is_done = true
if state == 'ready' then
  if mark ~= 'p' then
    for level in string.gmatch(passed_levels, '%d') do
      local before, put_first, last
      if score == level then before, put_first, last = string.match(member, '^(%d+)%-(%d+);(.*)$') end
      -- with `(not score` for `is_done and (not score`: a search passes by what is left of a level in which its page ended
      if is_done and (not score or level >= score) then
        is_done = search_list(level, tonumber(before), tonumber(put_first), last)
      end
    end
    score, member = nil, nil
  end
  if is_done then search_set(parked, 'p', score, member) end
else
  local set = state == 'delayed' and delayed or state == 'reserved' and reserved or failed
  search_set(set, '', score, member)
end
reply[1] = looked
-- without: a page looks through any number of entries that no longer count
reply[2] = passed
-- without: a page of a search that finds little reads any number of large records
reply[3] = bytes
return reply
