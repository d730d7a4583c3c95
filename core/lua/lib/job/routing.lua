-- What a script may know of a job: its record may begin with `<level>;<max_retries>;<length>;<length>;<key><name>`, and has no
-- such beginning when all four are the default. The JSON behind it is the user's and is never looked at. Of a record that
-- duly did not write nothing is known: the fourth value is then true. The fifth is the name, empty or nil without one.
-- Gives: `routing`.
local function routing(record)
  if string.byte(record, 1) == 123 then return '5', 5, nil end
  local level, max_retries, key_length, name_length, first = string.match(record, '^(%d);(%d+);(%d+);(%d+);()')
  -- White space before the JSON is somebody else's, but no fault.
  if not level then return '5', 5, nil, not string.find(record, '^[ \t\r\n]*{') end
  if tonumber(max_retries) > 4294967295 or first + key_length + name_length > #record + 1 then return '5', 5, nil, true end
  local key
  local behind = first + key_length
  -- with `do` for `if behind > first then`: jobs without a key fight for the empty key
  if behind > first then key = string.sub(record, first, behind - 1) end
  return level, tonumber(max_retries), key, false, string.sub(record, behind, behind + name_length - 1)
end
