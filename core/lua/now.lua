-- The server's clock, for what a client reckons with. Read-only.
-- Moves:   nothing.
-- Replies: the time in ms, rounded up, as spans are counted from it.
-- Cost:    O(1).
--- include: call/clock
return from
