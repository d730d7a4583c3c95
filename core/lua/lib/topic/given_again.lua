-- What a pull gave whose reply was lost, and nothing else.
-- Needs: `topic`, `messages`, `subscription`, `member`, `what_it_got`, `give`. Gives: nothing; it has given its messages.
local got = what_it_got(topic) or function() end
for id in got do
  -- What was acked meanwhile is over, and what another member has pulled by now is its own.
  local held = redis.call('XPENDING', messages, subscription, id, id, 1, member)[1]
  -- with `local entry = redis.call` for `local entry = held and redis.call`: a pull that is sent again gives what was acked
  local entry = held and redis.call('XRANGE', messages, id, id)[1]
  if entry then give(entry, held and held[4] or 1) end
end
