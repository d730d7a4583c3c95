-- The workers that are alive, with what they say of themselves. Read-only.
-- Moves:   nothing.
-- Replies: {id, info or '', id, ...}, the first to be taken for dead first.
-- Cost:    O(n) for n workers, 1,000 at most.
--- include: call/clock
local reply = {}
-- with `'-inf'` for `'(' .. now_text`: dead workers are listed
local alive = redis.call('ZRANGEBYSCORE', workers, '(' .. now_text, '+inf', 'LIMIT', 0, 1000)
for i = 1, #alive do
  reply[2 * i - 1] = alive[i]
  reply[2 * i] = redis.call('HGET', worker_infos, alive[i]) or ''
end
return reply
