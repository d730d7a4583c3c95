-- What the history of a queue says of one job, from the element with the number `start` on; without an id only how much it keeps.
-- Moves:   nothing.
-- Replies: {number of the element to go on with, 0 at the end; how many events it keeps and for how many ms, or ''; ms, origin and event of each}.
-- Cost:    O(elements), 1,000 calls or 512 KiB at most.
local noted, marked = unpack(redis.call('HMGET', meta, 'history', 'limits'))
local kept, ms_kept = string.match(noted or '', '^(%d+);(%d+)')
-- A client that knows of no history has switched it off: see `history/keep`.
if not marked then kept = nil end
local reply = { 0, kept and kept .. ';' .. ms_kept or '' }
local age_ms = tonumber(ms_kept or 0)
if job_id == '' or age_ms == 0 then return reply end
--- include: call/clock
local oldest = now - age_ms
-- Of a list with commas between.
local function one_of(list, index)
  for one in string.gmatch(list, '[^,]+') do
    index = index - 1
    if index == 0 then return one end
  end
  return ''
end

local ms, origin_of, what, detail, is_wanted
local function note(index)
  local own = detail
  if what == 'A' then own = one_of(detail, index) end
  if what == 'R' then own = string.match(detail, '^[^;]*;') .. one_of(string.match(detail, ';(.*)$'), index) end
  reply[#reply + 1], reply[#reply + 2], reply[#reply + 3] = ms, origin_of, what .. '\t' .. job_id .. '\t' .. own
end

-- Another program may have put something in front.
local first_number
for k, element in ipairs(redis.call('LRANGE', history, '0', '9')) do
  first_number = first_number or tonumber(string.match(element, '^(%d+);')) and string.match(element, '^(%d+);') - k + 1
end
local at, calls, bytes = math.max(0, start - (first_number or start)), 0, 0
local step = 40
repeat
  local elements, before = redis.call('LRANGE', history, at, at + step - 1), bytes
  for _, element in ipairs(elements) do
    bytes = bytes + #element
    -- An id has no tab.
    if string.find(element, '\t', 1, true) then
      local number, its_ms, its_origin = string.match(element, '^(%d+);%d+;(%d+);([^\t]*)')
      if number then
        local is_ahead = tonumber(number) >= start
        -- without `and tonumber(number) > start`: a trace goes round and never ends
        if (calls >= 1000 or bytes >= 524288) and tonumber(number) > start then
          reply[1] = tonumber(number)
          return reply
        end
        if is_ahead then calls = calls + 1 end
        ms, origin_of, is_wanted = its_ms, its_origin, is_ahead and tonumber(its_ms) >= oldest
      end
      what, detail = string.match(element, '\t(%a)\t([^\t]*)$')
    elseif is_wanted and what and string.find(element, job_id, 1, true) then
      local index = 0
      for id in string.gmatch(element, '[^\n]+') do
        index = index + 1
        if id == job_id then note(index) end
      end
    end
  end
  at = at + #elements
  local is_end = #elements < step
  -- Ids by the thousand: not much more of them than one call may read.
  if bytes - before > 131072 then step = math.max(2, step / 2 - step / 2 % 2) end
until is_end
return reply
