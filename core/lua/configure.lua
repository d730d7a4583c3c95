-- Sets how many failed jobs a queue keeps, and for how long.
-- Moves:   nothing; the next job that fails trims the set.
-- Replies: `ok`; or `superseded`, `forgotten`, `format <n>`, `levels <list>`. Numbered, or a late copy would undo what was said after it.
-- Cost:    O(1).
--- include: call/once
-- without: a late copy of a limit undoes the one set after it
if earlier then return earlier end
--- include: call/meta
-- without: an old client writes into a queue of a newer format
if refused then return refused end
-- without: a server without memory can be told to keep no fewer failed jobs
--- include: call/allow_growing
--- include: call/first_use
redis.call('HSET', meta, 'failed_max', failed_max, 'failed_age_ms', failed_age_ms)
return answer('ok')
