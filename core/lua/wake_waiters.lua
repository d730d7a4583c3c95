-- Wakes whoever waits for the results of jobs that were cancelled, purged or replaced, or failed with their leases.
-- Moves:   nothing.
-- Replies: `ok`; or `format <n>`.
-- Cost:    O(1) a job, at most 1,000 a call. Right when sent twice: the second time wakes once more.
local noted_format = redis.call('HGET', meta, 'format')
--- include: call/newer_format
--- include: wake/waiters
for i = 1, done_count do wake_waiters(done(i, done_count), life_ms) end
return 'ok'
