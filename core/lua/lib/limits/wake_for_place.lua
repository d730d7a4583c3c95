-- A job that a limit of concurrency held back may take the place that is free now: somebody must look, unless nobody may. Where the
-- rate of its name lets it start later, somebody must promise to come back for that.
-- Needs: `limited` with its rooms, what `call/meta` and `call/clock` give, `wake_one`.
--- include: wake/promised

-- with `do`: every ack in a paused queue wakes a worker for nothing
if noted_paused ~= '1' then
  local queue_limit = limited.by_number[0]
  local some_wait = false
  -- with `if queue_limit then`: every ack in a queue with a rate wakes a worker for nothing
  if queue_limit and queue_limit.most then
    -- Those that this call passes: it may just have pushed to a level that was not in use before.
    -- with `levels` for `passed_levels`: a place is free, and nobody is woken for the job of a level that was not in use
    -- with `true end` for `some_wait or redis.call('EXISTS', ready(level)) == 1 end`: acks wake workers while nothing is ready
    for level in string.gmatch(passed_levels, '%d') do some_wait = some_wait or redis.call('EXISTS', ready(level)) == 1 end
  end
  if not some_wait then
    some_wait = limited.takeable()
    local opens = math.ceil(limited.next_start() / 1000)
    -- with `if false then`: a place is free and nobody comes back when the rate of its name lets the next job start
    if opens < math.huge and not some_wait then
      -- with `some_wait = true`: every ack wakes a worker for jobs that nobody may take yet
      some_wait = nobody_comes(tonumber(redis.call('HGET', meta, 'timer') or 0), opens)
    end
  end
  if some_wait then
    wake_one()
  end
end
