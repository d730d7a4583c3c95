-- What a topic keeps of itself. Its messages are numbered from 1 without gaps, and each has its number in its id, `<ms>-<number>`, so
-- that all counting is arithmetic: none is removed but the oldest.
-- What another program has added lies between them, and the number in its id says nothing.
-- Needs: `topic`, `messages`, `floors`. Gives: `last`, `last_ms`, `length`, `number_of`, `is_ours`, `behind`, `first`, which is too low by
-- what others have added; what other programs hold in these keys has stopped the script.
local noted_format, noted_last, noted_ms = unpack(redis.call('HMGET', topic, 'format', 'last', 'last_ms'))
-- Another format than ours refuses every call.
-- without: an old client writes into a topic of a newer format
if noted_format and noted_format ~= 'FORMAT' then return 'format ' .. noted_format end
local last, last_ms = tonumber(noted_last or 0), tonumber(noted_ms or 0)
local length = redis.call('XLEN', messages)
-- without: a foreign type under `floors` publishes by half
redis.call('ZCARD', floors)
local first = last - length + 1
local function number_of(id) return tonumber(string.match(id, '%-(%d+)$')) end
local function is_ours(entry)
  local fields = entry[2]
  return fields[1] == 'd' and fields[3] == 'b' and tonumber(fields[4])
end
local function plus_one(digits)
  if #digits < 16 then return string.format('%.0f', digits + 1) end
  -- More than a number holds: what another program has added.
  local head, digit, nines = string.match(digits, '^(%d-)(%d)(9*)$')
  return head .. digit + 1 .. string.rep('0', #nines)
end
-- The lowest id behind this one.
local function behind(id)
  local ms, number = string.match(id, '^(%d+)%-(%d+)$')
  -- with `false` for `number == '18446744073709551615'`: an entry with the highest number of its millisecond ends each later pull
  if number == '18446744073709551615' then return plus_one(ms) .. '-0' end
  return ms .. '-' .. plus_one(number)
end
