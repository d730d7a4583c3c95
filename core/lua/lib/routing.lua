-- What a script may know of a job: its record may begin with `<level>;<max_retries>;<length>;<key>`, and has no such
-- beginning when all three are the default. The JSON behind it is the user's and is never looked at.
local DEFAULT_LEVEL = '5'
local DEFAULT_MAX_RETRIES = 5

local function routing(record)
  if string.byte(record, 1) == 123 then return DEFAULT_LEVEL, DEFAULT_MAX_RETRIES, nil end
  local level, max_retries, length, first = string.match(record, '^(%d);(%d+);(%d+);()')
  if not level then return DEFAULT_LEVEL, DEFAULT_MAX_RETRIES, nil end
  local key
  if length ~= '0' then key = string.sub(record, first, first + length - 1) end
  return level, tonumber(max_retries), key
end

-- The member of `delayed` names the level too, so that promoting a job need not read its record.
local function delayed_member(id, level)
  if level == DEFAULT_LEVEL then return id end
  return id .. '\t' .. level
end

local function split_delayed_member(member)
  local tab = string.find(member, '\t', 1, true)
  if not tab then return member, DEFAULT_LEVEL end
  return string.sub(member, 1, tab - 1), string.sub(member, tab + 1)
end
