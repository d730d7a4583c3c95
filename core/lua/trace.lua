-- What the history of a queue says of one job, from the call with the number `start` on, and before that with the number `stop` (0: to its end);
-- if there is no id only how much it keeps, and where it begins and ends.
-- Moves:   nothing.
-- Replies: {number of the call to go on with, 0 at the end; how many events it keeps and for how many ms, or ''; number of the first call
--          that was read, of the first there is if there is no id, 0 for none; the number that the next one will have; ms, origin and
--          event of each}.
-- Cost:    O(elements), 1,000 calls, 512 KiB or 500 events of the job at most.
local noted, marked = unpack(redis.call('HMGET', meta, 'history', 'limits'))
local kept, ms_kept, next_number, total = string.match(noted or '', '^(%d+);(%d+);?(%d*);?(%d*)')
-- A client that knows of no history has switched it off: see `history/keep`.
if not marked then kept = nil end
local reply = { 0, kept and kept .. ';' .. ms_kept or '', 0, tonumber(next_number or nil) or 1 }

local function number_of(element) return tonumber(string.match(element or '', '^(%d+);%d+;%d+;')) end
local first_number = number_of(redis.call('LINDEX', history, 0))
-- Another program may have put something in front, or taken away the beginning of a call.
for k, element in ipairs(first_number and {} or redis.call('LRANGE', history, 0, 9)) do
  first_number = first_number or number_of(element) and number_of(element) - k + 1
end
local age_ms = tonumber(ms_kept or 0)
if job_id == '' or age_ms == 0 then
  reply[3] = first_number or 0
  return reply
end
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

-- The call that is read, and the event in it.
local head, event
local function note(ids)
  local number, ms, origin_of = string.match(head, '^(%d+);%d+;(%d+);([^\t]*)')
  local what, detail = string.match(event, '\t(%a)\t([^\t]*)$')
  if not what or tonumber(number) < start or tonumber(ms) < oldest then return end
  local first, list = string.match(detail, '^([^;]*;)(.*)$')
  -- without: what another program has put there fails the trace
  if what == 'R' and not first then return end
  local index = 0
  for id in string.gmatch(ids, '[^\n]+') do
    index = index + 1
    if id == job_id then
      local own = detail
      if what == 'A' then own = one_of(detail, index) end
      if what == 'R' then own = first .. one_of(list, index) end
      reply[#reply + 1], reply[#reply + 2], reply[#reply + 3] = ms, origin_of, what .. '\t' .. job_id .. '\t' .. own
    end
  end
end

-- How many events there were until the call at this index, or a little behind it.
local function events_until(index)
  for k = index, index + 5 do
    local element = redis.call('LINDEX', history, k)
    if not element then return tonumber(total or nil) end
    local events = string.match(element, '^%d+;(%d+);%d+;')
    if events then return tonumber(events) end
  end
end

-- How many elements to read at once. The middle of a long list takes long to find, so as many as may be: but not with more than 4,000 ids, or
-- two calls.
local function step_at(index)
  local before, step = events_until(index), 2002
  for _ = 1, 2 do
    local behind = before and events_until(index + step)
    if not behind then return 4 end
    if behind - before <= 4000 then return step end
    -- As if each call had as many.
    step = math.max(4, math.floor(step * 3900 / (behind - before) / 4) * 4)
  end
  return 4
end

local at, calls, bytes = math.max(0, start - (first_number or start)), 0, 0
repeat
  local step = step_at(at)
  local elements = redis.call('LRANGE', history, at, at + step - 1)
  for _, element in ipairs(elements) do
    bytes = bytes + #element
    -- An id has no tab.
    if string.find(element, '\t', 1, true) then
      event = element
      -- Not one more event of the same call.
      if string.byte(element) ~= 9 then
        local number = number_of(element)
        head = number and element
        -- without: who reads backwards reads each call again and again
        if number and stop > 0 and number >= stop then return reply end
        -- without `and number > start`: a trace goes round and never ends
        if number and (calls >= 1000 or bytes >= 524288 or #reply > 1500) and number > start then
          reply[1] = number
          return reply
        end
        if number and number >= start then
          calls = calls + 1
          if reply[3] == 0 then reply[3] = number end
        end
      end
    elseif head and string.find(element, job_id, 1, true) then
      note(element)
    end
  end
  at = at + #elements
until #elements < step
return reply
