-- Removes the oldest messages, so many that `kept` is the first one: a thousand in one call at most.
-- Needs: `messages`, `first`, `length`, `number_of`. Gives: `trim_to`, which writes `first` and `length`.
local function trim_to(kept)
  local going = math.min(kept - first, length, 1000)
  if going > 0 then
    -- What another program has added is counted in `length`, and has no number of ours.
    -- with `if false then`: what another program has added pushes out messages that nobody has read
    if number_of(redis.call('XRANGE', messages, '-', '+', 'COUNT', 1)[1][1]) ~= first then
      local oldest = redis.call('XRANGE', messages, '-', '+', 'COUNT', going)
      going = 0
      for _, entry in ipairs(oldest) do
        if number_of(entry[1]) >= kept then break end
        going = going + 1
      end
    end
    redis.call('XTRIM', messages, 'MAXLEN', string.format('%.0f', length - going))
    first, length = first + going, length - going
  end
end
