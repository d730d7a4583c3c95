-- A page of the list of queues: those behind `after`, by name. Read-only.
-- Moves:   nothing.
-- Replies: {now, and of each queue its name and `<last used in ms> <partitions>`}.
-- Cost:    O(log queues + page).
--- include: call/clock
local first = after == '' and '-' or '(' .. after
local page = redis.call('ZRANGEBYLEX', queues, first, '+', 'LIMIT', 0, most)
local reply = { now_text }
for _, name in ipairs(page) do
  reply[#reply + 1] = name
  reply[#reply + 1] = redis.call('HGET', queues_used, name) or '0 0'
end
return reply
