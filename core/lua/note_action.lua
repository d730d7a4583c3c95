-- Notes what an operator has done, as the newest entry of the log of actions.
-- Moves:   nothing.
-- Replies: `noted`.
-- Cost:    O(1).
--- include: call/clock, call/once
-- without: an action whose call is sent again is in the log twice
if earlier then return earlier end
redis.call('RPUSH', actions, now_text .. '\n' .. entry)
-- without: the log of actions grows for ever
redis.call('LTRIM', actions, -most_actions, -1)
return answer('noted')
