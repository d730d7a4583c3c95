-- Sets the limits of a queue and of job names, or takes away those that are not said. `max_length`: how many jobs the queue takes, or ''.
-- Moves:   nothing; the next reserve keeps to them.
-- Replies: `ok`; `busy`: so many limits of names were taken away while their jobs run that there is no number left, and nothing
--          was changed; or `superseded`, `forgotten`, `format <n>`, `levels <list>`. Numbered, or a late copy would undo what was said after it.
-- Cost:    O(names); where a name is new, O(1,000) for the jobs that are reserved just now.
--- include: call/once
-- without: a limit that was replaced comes back with a late copy
if earlier then return earlier end
--- include: call/meta
-- without: an old client writes into a queue of a newer format
if refused then return refused end
-- ARGV from first_item: (name, '' for the queue, and `<concurrency>;<jobs>:<us>`, with nothing where there is no limit) each.
local live, is_new
local unrated = {}
-- without: a queue of a server without memory gets no limits
--- include: call/allow_growing
--- include: limits/live
if limits or first_item < #ARGV then
  -- without 3 lines: a foreign type under `reserved` sets limits by half
  redis.call('HLEN', jobs)
  redis.call('ZCARD', reserved)
  redis.call('ZCARD', parked)
  --- include: limits/merge
  if not live then return answer('busy') end
end
--- include: call/first_use
if max_length ~= '' then redis.call('HSET', meta, 'max_length', max_length) else redis.call('HDEL', meta, 'max_length') end
noted_max_length = max_length ~= '' and max_length
if not live then
  -- Nothing but the length, or not even that any more.
  -- without: the plain text of a push is executed, and looks at no length
  if noted_max_length then redis.call('HSET', meta, 'limits', '') end
  -- without: a queue without options is slower than it need be for ever
  if noted_limits == '' and not noted_max_length and not noted_history then redis.call('HDEL', meta, 'limits') end
end
if live then
  write_limits(live[1])
  -- without: a rate of a name that was taken away counts starts when it comes again
  if #unrated > 0 then redis.call('HDEL', meta, unpack(unrated)) end
  --- include: limits/count_reserved
end
-- without: nobody takes the jobs that a higher limit lets run
--- include: wake/one
wake_one()
return answer('ok')
