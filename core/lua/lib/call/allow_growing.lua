-- A server without memory refuses the first growing write of a script, and only the first: after any other write command
-- the rest may grow. Verbs that end work or keep it going begin with a write that never grows, so that workers can finish;
-- so does what only keeps the answer of a call that changed nothing.
-- Needs: nothing. Gives: nothing.
redis.call('HDEL', meta, '')
