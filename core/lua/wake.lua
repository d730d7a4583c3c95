-- Passes a wake-up on: who was woken has no use for it.
-- Moves:   nothing.
-- Replies: `ok`. Right when sent twice: at most two wake-ups wait.
-- Cost:    O(1).
if redis.call('LLEN', wake) < 2 then redis.call('LPUSH', wake, '1') end
return 'ok'
