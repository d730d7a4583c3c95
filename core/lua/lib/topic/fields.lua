-- Fields of a topic by their kind, the word before `:`, without those of other kinds: what each member has pulled last may be much.
-- Needs: `topic`. Gives: `fields_of`, of `{ <kind> = true }`, with `''` for those without one: each field with its value.
local function fields_of(kinds)
  local names, is_pair = redis.pcall('HKEYS', topic), false
  -- An ACL that was written for an older version may not permit that.
  -- with `if false then` for `if names.err then`: an ACL that was written for an older version ends each subscription
  if names.err then names, is_pair = redis.call('HGETALL', topic), true end
  local wanted, field = {}, {}
  for at = 1, #names, is_pair and 2 or 1 do
    -- with `true` for `kinds[string.match(names[at], '^(%a+):') or '']`: each call reads what each member has pulled last
    if kinds[string.match(names[at], '^(%a+):') or ''] then wanted[#wanted + 1] = names[at] end
  end
  for from = 1, #wanted, 1000 do
    local upto = math.min(from + 999, #wanted)
    for at, value in ipairs(redis.call('HMGET', topic, unpack(wanted, from, upto))) do field[wanted[from + at - 1]] = value end
  end
  return field
end
