-- Notes how far the run of a job has come, if its lease is still held.
-- Moves:   nothing.
-- Replies: `1` noted, `0` the lease was lost; or `format <n>`.
-- Cost:    O(1). Right when sent twice, but for the time: a late copy may put an earlier note of this run in place of a later one.
local noted_format = redis.call('HGET', meta, 'format')
--- include: call/newer_format
local id = ARGV[first_item]
--- include: call/clock
-- without: who lost the lease notes progress of another's run
if redis.call('HGET', leases, id) ~= token then return '0' end
-- A handler must not be held up because the server is full: there is one note a job that runs.
--- include: call/allow_growing
local noted = token .. ';' .. fraction .. ';' .. now_text .. ';' .. text
-- without `, 'PX', 3600000`: progress stays for ever
redis.call('SET', progress(1, progress_count), noted, 'PX', 3600000)
return '1'
