-- The first message from an id on, where another program may have added something before it.
-- Needs: `messages`, `is_ours`. Gives: `first_of_ours`: its entry, or nothing and whether the look came to the end.
local function first_of_ours(from)
  -- A message may be large, so few are read where few are enough.
  for _, count in ipairs({ 1, 10, 100, 1000 }) do
    local entries = redis.call('XRANGE', messages, from, '+', 'COUNT', count)
    for _, entry in ipairs(entries) do
      -- with `true` for `is_ours(entry)`: the number of what another program has added is taken for that of a message
      if is_ours(entry) then return entry end
    end
    if #entries < count then return nil, true end
  end
  return nil, false
end
