-- Reads schedules: those that are named, or a page of all in the order in which they fire, paused ones and those that are over last.
-- Moves:   nothing.
-- Replies: {now, how many there are, name, state, definition, fires or '', name, ...}; those that are named and not there are left out.
-- Cost:    O(log n) a schedule, at most `limit` or `max_bytes`.
--- include: call/clock
local names = {}
for at = first_item, #ARGV do names[#names + 1] = ARGV[at] end
local is_page = #names == 0
if is_page then
  names = redis.call('ZRANGE', schedule_due, string.format('%d', offset), string.format('%d', offset + limit - 1))
end
local reply = { now_text, redis.call('ZCARD', schedule_due) }
local bytes = 0
for _, name in ipairs(names) do
  local state = redis.call('HGET', schedule_state, name)
  if state then
    local definition = redis.call('HGET', schedules, name) or ''
    bytes = bytes + #definition
    if is_page and bytes > max_bytes and #reply > 2 then break end
    reply[#reply + 1] = name
    reply[#reply + 1] = state
    reply[#reply + 1] = definition
    reply[#reply + 1] = is_page and '' or redis.call('HGET', schedule_fires, name) or ''
  end
end
return reply
