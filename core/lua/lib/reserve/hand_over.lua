-- Puts jobs into the reply, and notes their leases.
-- Needs: `entries`, `records`, `count`, `token`, `lease_end`, `some_came_back`, `reply`, `ends`, `lease_pairs`, `granted_texts`,
-- `granted`, except in the plain text what `history/events` gives. Gives: `granted`, and adds to the lists.
reply[#reply + 1] = entries
reply[#reply + 1] = records
reply[#reply + 1] = some_came_back and redis.call('HMGET', returned, unpack(entries)) or 0
local at = 2 * granted
for k = 1, count do
  local id = entries[k]
  lease_pairs[at + 1], lease_pairs[at + 2] = id, token
  ends[at + 1], ends[at + 2] = lease_end, id
  at = at + 2
end
granted_texts[#granted_texts + 1] = table.concat(entries, '\n')
--- if limited
if events then
  local failures = {}
  for k = 1, some_came_back and count or 0 do
    failures[k] = string.match(reply[#reply][k] or '', '^0?(%d+);') or '0'
  end
  happened('R', granted_texts[#granted_texts], count, token .. ';' .. table.concat(failures, ','))
end
--- end
granted = granted + count
