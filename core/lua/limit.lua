-- Sets the limits of a queue and of job names, or takes away those that are not said.
-- Moves:   nothing; the next reserve keeps to them.
-- Replies: `ok`; `busy`: so many limits of names were taken away while their jobs run that there is no number left, and nothing
--          was changed; or `superseded`, `format <n>`, `levels <list>`. Numbered, or a late copy would undo what was said after it.
-- Cost:    O(names); where a name is new, O(1,000) for the jobs that are reserved just now.
--- include: once
if earlier then return earlier end
--- include: meta
if refused then return refused end
-- ARGV from first_item: (name, '' for the queue, and `<concurrency>;<jobs>:<us>`, with nothing where there is no limit) each.
local live, is_new
local unrated = {}
--- include: live_limits
if limits or first_item < #ARGV then
  redis.call('HLEN', jobs)
  redis.call('ZCARD', reserved)
  redis.call('ZCARD', parked)
  --- include: set_limits
  if not live then
    --- include: room_first
    return answer('busy')
  end
end
--- include: first_use
if live then
  write_limits(live[1])
  if #unrated > 0 then redis.call('HDEL', meta, unpack(unrated)) end
  --- include: count_reserved
end
--- include: wake_one
return answer('ok')
