-- Sets the limits of a queue, or takes them away where `limits` is empty.
-- Moves:   nothing; the next reserve keeps to them.
-- Replies: `ok`; or `superseded`, `format <n>`, `levels <list>`. Numbered, or a late copy would undo what was said after it.
-- Cost:    O(1).
--- include: once
if earlier then return earlier end
--- include: meta
if refused then return refused end
--- include: first_use
if limits == '' then
  redis.call('HDEL', meta, 'limits', 'rate_at')
else
  -- What has started lately still counts, or every program that says its limits when it starts would allow another burst.
  redis.call('HSET', meta, 'limits', limits)
end
--- include: wake_one
return answer('ok')
