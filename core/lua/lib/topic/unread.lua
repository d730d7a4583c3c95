-- Messages that nobody has pulled, as XREADGROUP does, which Redis 5 does not let a script call.
-- Needs: `topic`, `messages`, `subscription`, `member`, `behind`, `most`, `max_bytes`, `given`, `bytes`, `largest`,
-- `ids`, `has_room`, `give`, `at`, `ours`. Gives: `is_end`, whether there is nothing behind what it has given, and
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
  -- As many as are likely to fit, by the largest one yet, and few: the next ones may be much larger, or of another program.
  -- with `32` for `10`: behind small messages a pull reads many large ones
  count = math.min(2 * count, 10, math.max(1, math.floor((max_bytes - bytes) / largest)))
end
if #ids > again_pulled then
  local claim = { 'XCLAIM', messages, subscription, member, 0 }
  for i = again_pulled + 1, #ids do claim[#claim + 1] = ids[i] end
  for _, word in ipairs({ 'FORCE', 'RETRYCOUNT', '1', 'JUSTID', 'LASTID', at }) do claim[#claim + 1] = word end
  redis.call(unpack(claim))
  -- without: messages are given again and again
  redis.call('HSET', topic, 'at:' .. subscription, at, 'ours:' .. subscription, ours)
end
