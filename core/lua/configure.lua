-- Sets how many failed jobs a queue keeps, and for how long.
-- Moves:   nothing; the next job that fails trims the set.
-- Replies: `ok`; or `format <n>`, `levels <list>`. Right when sent twice.
-- Cost:    O(1).
--- include: meta, first_use
local refused = refusal()
if refused then return refused end
note_levels()
redis.call('HSET', meta, 'failed_max', failed_max, 'failed_age_ms', failed_age_ms)
return 'ok'
