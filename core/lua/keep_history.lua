-- Says how many events a queue keeps in its history, and for how long; 0: it keeps none, and what it has kept goes.
-- Moves:   nothing; calls note what happens to jobs from now on.
-- Replies: `ok`; or `superseded`, `forgotten`, `format <n>`, `levels <list>`. Numbered, or a late copy would undo what was said after it.
-- Cost:    O(1): the server frees a history beside its other work.
--- include: call/once
-- without: a late copy of a switch undoes the one behind it
if earlier then return earlier end
--- include: call/meta
-- without: an old client writes into a queue of a newer format
if refused then return refused end
if history_events > 0 then
  if not limits then
    -- without: the plain text of a script is executed, and notes nothing
    redis.call('HSET', meta, 'limits', '')
    -- without: a length that was taken away with the limits comes back with a history
    if not noted_limits then redis.call('HDEL', meta, 'max_length') end
  end
  --- include: call/first_use
  local last = string.match(noted_history or '', '^%d+;%d+(;%d+;%d+)$') or ''
  redis.call('HSET', meta, 'history', string.format('%.0f;%.0f', history_events, history_age_ms) .. last)
else
  -- The first, because not everybody may: then nothing is done. It grows nothing.
  redis.call('UNLINK', history)
  redis.call('HDEL', meta, 'history')
  -- without: a queue without options is slower than it need be for ever
  if noted_limits == '' and not noted_max_length then redis.call('HDEL', meta, 'limits') end
end
return answer('ok')
