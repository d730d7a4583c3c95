-- What a script may know of a job: its record may begin with `<level>;<max_retries>;<length>;<key>`, and has no such
-- beginning when all three are the default. The JSON behind it is the user's and is never looked at. Of a record that
-- duly did not write nothing is known: the last value is then true.
local function routing(record)
  if string.byte(record, 1) == 123 then return '5', 5, nil end
  local level, max_retries, length, first = string.match(record, '^(%d);(%d+);(%d+);()')
  if not level then return '5', 5, nil, true end
  local key
  if length ~= '0' then key = string.sub(record, first, first + length - 1) end
  return level, tonumber(max_retries), key
end
