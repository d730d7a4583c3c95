-- Removes the oldest messages, so many that `kept` is the first one: a thousand in one call at most.
-- Needs: `messages`, `first`, `length`. Gives: `trim_to`, which says the number of the first one behind it and
-- writes `first` and `length`.
local function trim_to(kept)
  local going = math.min(kept - first, length, 1000)
  if going > 0 then
    redis.call('XTRIM', messages, 'MAXLEN', string.format('%.0f', length - going))
    first, length = first + going, length - going
  end
  return first
end
