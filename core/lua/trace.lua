-- What the history of a queue says of one job, from the element with the number `start` on; without an id only how much it keeps.
-- Moves:   nothing.
-- Replies: {number of the element to go on with, 0 at the end; how many events it keeps and for how many ms, or ''; ms, origin and event of each}.
-- Cost:    O(elements), 1,000 calls or 512 KiB at most.
local kept, ms_kept = string.match(redis.call('HGET', meta, 'history') or '', '^(%d+);(%d+)')
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

local first_number = tonumber(string.match(redis.call('LINDEX', history, '0') or '', '^(%d+);') or start)
local at, calls, bytes = math.max(0, start - first_number), 0, 0
repeat
  local elements = redis.call('LRANGE', history, at, at + 39)
  for _, element in ipairs(elements) do
    bytes = bytes + #element
    -- An id has no tab.
    if string.find(element, '\t', 1, true) then
      local number, its_ms, its_origin = string.match(element, '^(%d+);%d+;(%d+);([^\t]*)')
      if number then
        if calls >= 1000 or bytes >= 524288 and calls > 0 then
          reply[1] = tonumber(number)
          return reply
        end
        calls = calls + 1
        ms, origin_of, is_wanted = its_ms, its_origin, tonumber(number) >= start and tonumber(its_ms) >= oldest
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
until #elements < 40
return reply
