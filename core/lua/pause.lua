-- Pauses or resumes a queue: a paused queue takes jobs in and settles outcomes, but hands out none.
-- Moves:   nothing.
-- Replies: `ok`; or `superseded`, `forgotten`, `format <n>`, `levels <list>`. Numbered, or a late copy would undo what was said after it.
-- Cost:    O(1).
--- include: call/once
-- without: a late copy of a pause undoes the resume after it
if earlier then return earlier end
--- include: call/meta
-- without: an old client writes into a queue of a newer format
if refused then return refused end
-- without: a queue of a server without memory cannot be paused
--- include: call/allow_growing
--- include: call/first_use
if pause == '1' then
  redis.call('HSET', meta, 'paused', '1')
else
  redis.call('HDEL', meta, 'paused')
  --- include: wake/one
  wake_one()
end
return answer('ok')
