-- Takes a topic from the list that a member has, unless it has subscribed again meanwhile.
-- Moves:   nothing.
-- Replies: how many were taken.
-- Cost:    O(1). Right when sent twice.
-- without: a late copy takes a newer subscription off the list
if redis.call('HGET', member_topics, name) ~= tag then return 0 end
return redis.call('HDEL', member_topics, name)
