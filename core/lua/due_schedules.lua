-- Reads the schedules that fire now, behind the first `offset` of them, which the caller cannot read; if there are none, takes over the
-- promise to come back for the next one, unless another worker has given it, or the caller does not come back (`promise` is 1).
-- Moves:   nothing.
-- Replies: {now, the moment that the caller has promised or 0, us until the next one fires or -1, name, state, definition, ...};
--          or `format <n>`.
-- Cost:    O(log n) a schedule, at most `most` or `max_bytes`. Right when sent twice: the promise is a hint.
local noted_format = redis.call('HGET', meta, 'format')
--- include: call/newer_format
--- include: call/clock, wake/promised
local reply = { now_text, 0, -1 }
local bytes = 0
for _, name in ipairs(redis.call('ZRANGEBYSCORE', schedule_due, '-inf', now_text, 'LIMIT', offset, most)) do
  local definition = redis.call('HGET', schedules, name) or ''
  bytes = bytes + #definition
  -- without: a hundred large schedules make one reply
  if bytes > max_bytes and #reply > 3 then break end
  reply[#reply + 1] = name
  reply[#reply + 1] = redis.call('HGET', schedule_state, name) or ''
  reply[#reply + 1] = definition
end
if #reply > 3 then return reply end
local head = redis.call('ZRANGEBYSCORE', schedule_due, '(' .. now_text, '+inf', 'WITHSCORES', 'LIMIT', '0', '1')[2]
-- with `not head` for `not head or head == 'inf'`: a worker promises to come back for schedules that are paused or over
if not head or head == 'inf' then return reply end
local next_ms = tonumber(head)
local timer = tonumber(redis.call('HGET', meta, 'schedule_timer') or 0)
reply[3] = next_ms * 1000 - now_us
-- with `if true then`: all workers come back for each schedule
-- without `promise ~= 1 and`: workers rely on a program that does not come back
if promise ~= 1 and (timer == promise or nobody_comes(timer, next_ms)) then
  redis.call('HSET', meta, 'schedule_timer', head)
  reply[2] = next_ms
end
return reply
