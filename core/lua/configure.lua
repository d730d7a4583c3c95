-- Sets how many failed jobs a queue keeps, and for how long.
-- Moves:   nothing; the next job that fails trims the set.
-- Replies: `ok`; or `format <n>`, `levels <list>`. Right when sent twice.
-- Cost:    O(1).
--- include: meta
if refused then return refused end
--- include: first_use
redis.call('HSET', meta, 'failed_max', failed_max, 'failed_age_ms', failed_age_ms)
return 'ok'
