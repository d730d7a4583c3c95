-- The first message that is there, where another program may have added something before it: in a look at a few entries.
-- Needs: `messages`, `is_ours`. Gives: `first_of_ours`: its entry, or nothing and whether there is none.
local function first_of_ours()
  local entries
  -- A message may be large, so one is read where one is enough.
  for _, count in ipairs({ 1, 10 }) do
    entries = redis.call('XRANGE', messages, '-', '+', 'COUNT', count)
    for _, entry in ipairs(entries) do
      -- with `true` for `is_ours(entry)`: the number of what another program has added is taken for that of a message
      if is_ours(entry) then return entry end
    end
  end
  return nil, #entries < 10
end
