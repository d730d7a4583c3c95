-- Passes a wake-up on: who was woken has no use for it.
-- Moves:   nothing.
-- Replies: `ok`. Right when sent twice: at most two wake-ups wait.
-- Cost:    O(1).
--- include: wake_one
return 'ok'
