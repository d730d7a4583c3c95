-- What limits leave to this reserve.
-- Needs: `want`, `reply`, what `call/meta` and `call/clock` give. Gives: `asked` (what was wanted) and `want`; `limited`, if there
-- are limits, and of these `queue_limit`, that of the whole queue, and `held_names`, those of names whose jobs may be held back;
-- `limits` as they are now.
local asked = want
local limited, queue_limit, held_names
if limits then
  --- include: limits/found_again
  if limits then
    --- include: limits/limited, limits/left
    -- without: the end of a slower rate of a name moves on with the clock
    limited.note_late()
    queue_limit = limited.by_number[0]
    -- without: limits limit nothing
    if queue_limit then want = math.min(want, limited.room(queue_limit)) end
    held_names = redis.call('EXISTS', parked) == 1 and limited.names
  else
    reply[6] = (noted_history or noted_max_length) and 2 or 0
  end
end
