-- Pauses or resumes a queue: a paused queue takes jobs in and settles outcomes, but hands out none.
-- Moves:   nothing.
-- Replies: `ok`; or `format <n>`, `levels <list>`. Right when sent twice.
-- Cost:    O(1).
--- include: meta
if refused then return refused end
--- include: first_use
if pause == '1' then
  redis.call('HSET', meta, 'paused', '1')
else
  redis.call('HDEL', meta, 'paused')
  --- include: wake_one
end
return 'ok'
