-- Jobs were stored: writes down what the queue says of itself, and wakes who waits for them.
-- Needs: `stored`, `some_ready`, `some_large`, `earliest`; `wake_one`, `wake_for`, what `call/meta` gives.
--- include: call/first_use
if some_large and not noted_large then redis.call('HSET', meta, 'large', '1') end
-- without: a waiting worker does not hear of a new job
if some_ready then wake_one() end
-- without: a waiting worker does not hear of a nearer due time
if earliest then wake_for(earliest) end
redis.pcall('HINCRBY', stats, 'pushed', stored)
