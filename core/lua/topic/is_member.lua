-- Is this a member of each of these topics? The list that a member has keeps topics which others have deleted meanwhile.
-- Moves:   nothing.
-- Replies: a character a topic: `1` it is, or the topic cannot be read; `0` it is not.
-- Cost:    O(topics).
local flags = {}
for at = 1, topic_count do
  local topic = topic_keys(at)
  flags[at] = redis.pcall('HEXISTS', topic, 'member:' .. member) == 0 and '0' or '1'
end
return table.concat(flags)
