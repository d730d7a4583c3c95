-- What a topic keeps of itself. Its messages are numbered from 1, and each has its number in its id, `<ms>-<number>`. Another program may
-- have added entries between them, whose numbers say nothing, and may have removed messages: no number follows from a length.
-- Needs: `topic`, `messages`, `floors`. Gives: `last`, `last_ms`, `published_bytes`, `length`, `first`, `first_ms`
-- and `first_id`: no message that is there has a lower number, or is older; `number_of`, `ms_of`, `size_of`, `is_ours`, `is_before`, `behind`. What other programs hold in these keys has
-- stopped the script.
local noted_format, noted_last, noted_ms, noted_bytes, first_id = unpack(redis.call(
  'HMGET', topic, 'format', 'last', 'last_ms', 'bytes', 'first'))
-- Another format than ours refuses every call.
-- without: an old client writes into a topic of a newer format
if noted_format and noted_format ~= 'FORMAT' then return 'format ' .. noted_format end
local last, last_ms, published_bytes = tonumber(noted_last or 0), tonumber(noted_ms or 0), tonumber(noted_bytes or 0)
local length = redis.call('XLEN', messages)
-- without: a foreign type under `floors` publishes by half
redis.call('ZCARD', floors)
local function ms_of(id) return tonumber(string.match(id, '^%d+')) end
local function number_of(id) return tonumber(string.match(id, '%d+$')) end
-- An older version kept none. The first call that removes something finds it.
first_id = first_id or '0-1'
local first, first_ms = number_of(first_id), ms_of(first_id)
-- Of an entry, with all its fields: another program may have more than two.
local function size_of(entry)
  local size = 0
  for _, text in ipairs(entry[2]) do size = size + #text end
  return size
end
local function is_ours(entry)
  local fields = entry[2]
  local bytes = #fields == 4 and fields[1] == 'd' and fields[3] == 'b' and tonumber(fields[4])
  if not bytes then return false end
  local ms, number = string.match(entry[1], '^(%d+)%-(%d+)$')
  number = tonumber(number)
  -- A tool that copies entries keeps their fields, and not their ids.
  -- with `true` for `number > 0 and number <= last and bytes >= #fields[2] and bytes <= published_bytes`: what another program has copied is taken for a message
  return number > 0 and number <= last and bytes >= #fields[2] and bytes <= published_bytes and tonumber(ms) <= last_ms
end
-- More than a number holds: what another program has added.
local function sortable(id)
  local ms, number = string.match(id, '^(%d+)%-(%d+)$')
  return string.rep('0', 20 - #ms) .. ms .. string.rep('0', 20 - #number) .. number
end
local function is_before(id, other) return sortable(id) < sortable(other) end
local function plus_one(digits)
  if #digits < 16 then return string.format('%.0f', digits + 1) end
  local head, digit, nines = string.match(digits, '^(%d-)(%d)(9*)$')
  return head .. digit + 1 .. string.rep('0', #nines)
end
-- The lowest id behind this one; nothing behind the highest one.
local function behind(id)
  local ms, number = string.match(id, '^(%d+)%-(%d+)$')
  -- with `true` for `number ~= '18446744073709551615'`: an entry with the highest number of its millisecond ends each later pull
  if number ~= '18446744073709551615' then return ms .. '-' .. plus_one(number) end
  -- with `true` for `ms ~= number`: an entry with the highest id of all ends each later pull
  if ms ~= number then return plus_one(ms) .. '-0' end
end
