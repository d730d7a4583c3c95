-- Leases that are over, the oldest first. Settling can only take some of them away.
-- Needs: what `call/clock` gives, `reclaim_cap`, `ended`. Gives: `ended`.

-- with `'LIMIT', '0', '100000')` for `'LIMIT', '0', reclaim_cap)`: a million ended leases stall the server
ended = redis.call('ZRANGEBYSCORE', reserved, '-inf', now_text, 'LIMIT', '0', reclaim_cap)
