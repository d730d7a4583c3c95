-- The first message from an id on, where another program may have added something before it.
-- Needs: `messages`, `is_ours`. Gives: `first_of_ours`: its entry, or nothing and whether the look came to the end; and how many entries
-- it has read, which are about as many as it may.
local function first_of_ours(from, most)
  -- A message may be large, so few are read where few are enough.
  local count, read = 1, 0
  while read < most do
    local entries = redis.call('XRANGE', messages, from, '+', 'COUNT', count)
    read = read + #entries
    for _, entry in ipairs(entries) do
      -- with `true` for `is_ours(entry)`: the number of what another program has added is taken for that of a message
      if is_ours(entry) then return entry, false, read end
    end
    if #entries < count then return nil, true, read end
    count = math.min(10 * count, most)
  end
  return nil, false, read
end
