-- Messages that nobody has pulled, as XREADGROUP does, which Redis 5 does not let a script call.
-- Needs: `topic`, `messages`, `subscription`, `member`, `is_ours`, `behind`, `length`, `last`, `first`, `most`, `max_bytes`, `given`, `bytes`, `largest`,
-- `published_bytes`, `ids`, `has_room`, `give`, `at`, `ours`. Gives: `is_end`, whether there is nothing behind what it has given, and
-- `entries_behind`; `at` and `ours` are those of now.
local again_pulled = #ids
local function entries_behind(id, count)
  local start = behind(id)
  return start and redis.call('XRANGE', messages, start, '+', 'COUNT', count) or {}
end
local count, is_end = 1, false
while has_room() do
  count = math.min(count, most - given)
  local entries = entries_behind(at, count)
  for _, entry in ipairs(entries) do
    -- with `if false then break end` for `if not has_room() then break end`: small messages before large ones bring all of those at once
    if not has_room() then break end
    -- with `give(entry, 1) ours = entry[1]` for `if give(entry, 1) then ours = entry[1] end`: the number of what another program has added is taken for that of a message
    if give(entry, 1) then ours = entry[1] end
    at = entry[1]
  end
  if #entries < count then
    is_end = #entries == 0 or at == entries[#entries][1]
    break
  end
  local until_here = entries[count]
  -- All the rest if it fits, else as many as are likely to, by the largest one yet; few, as the next ones may be much larger. Of what another
  -- program has added, nobody knows how large it is.
  -- without `is_ours(until_here) and`: an entry of another program with a number in it brings all that is behind it
  -- with `true` for `length <= last - first + 1`: a pull reads all that another program has added behind a message, however large
  if is_ours(until_here) and length <= last - first + 1 and published_bytes - tonumber(until_here[2][4]) <= max_bytes - bytes then
    count = most
  else
    count = math.min(2 * count, 32, math.max(1, math.floor((max_bytes - bytes) / largest)))
  end
end
if #ids > again_pulled then
  local claim = { 'XCLAIM', messages, subscription, member, 0 }
  for i = again_pulled + 1, #ids do claim[#claim + 1] = ids[i] end
  for _, word in ipairs({ 'FORCE', 'RETRYCOUNT', '1', 'JUSTID', 'LASTID', at }) do claim[#claim + 1] = word end
  redis.call(unpack(claim))
  -- without: messages are given again and again
  redis.call('HSET', topic, 'at:' .. subscription, at, 'ours:' .. subscription, ours)
end
