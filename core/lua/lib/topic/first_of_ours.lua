-- The first message that is there, where another program may have added something before it: in a look at a few entries.
-- Needs: `messages`, `is_ours`, `size_of`, `behind`. Gives: `first_of_ours`: its entry, or nothing and whether there is none.
local function first_of_ours()
  local from, bytes = '-', 0
  for _ = 1, 10 do
    -- One may be large.
    local entry = from and redis.call('XRANGE', messages, from, '+', 'COUNT', 1)[1]
    if not entry then return nil, true end
    -- with `true` for `is_ours(entry)`: the number of what another program has added is taken for that of a message
    if is_ours(entry) then return entry end
    from, bytes = behind(entry[1]), bytes + size_of(entry)
    -- without: a call that asks for the first message reads ten large entries of another program
    if bytes > 8388608 then break end
  end
  return nil, false
end
