-- How much would be lost with the queue. Read-only.
-- Moves:   nothing.
-- Replies: `<jobs> <schedules>`.
-- Cost:    O(1).
-- Jobs that are on their way to another queue have four elements each.
local there = redis.call('HLEN', jobs) + redis.call('LLEN', departing) / 4
return string.format('%.0f %.0f', there, redis.call('HLEN', schedules))
