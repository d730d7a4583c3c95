-- Leases that are over, the oldest first. Settling can only take some of them away.
-- Needs: `clock`, `reclaim_cap`. Gives: `expired`.
expired = redis.call('ZRANGEBYSCORE', reserved, '-inf', now_text, 'LIMIT', '0', reclaim_cap)
