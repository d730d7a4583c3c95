-- Removes the oldest messages, so many that a message that is to be kept is the first one: a thousand in one call at most.
-- Needs: `messages`, `first`, `length`, `number_of`, `is_ours`. Gives: `reach`, `trim`, `trim_to`.

-- The number of the first message that one call can keep, and how many entries go then.
local function reach(kept)
  local going = math.min(kept - first, length, 1000)
  if going <= 0 then return first, 0 end
  local oldest = redis.call('XRANGE', messages, '-', '+', 'COUNT', 1)[1]
  -- with `true` for `is_ours(oldest) and number_of(oldest[1]) == first`: what another program has added pushes out messages that nobody has read
  -- without `is_ours(oldest) and`: so it does if it has the number of the first message
  if is_ours(oldest) and number_of(oldest[1]) == first then return first + going, going end
  -- What another program has added is counted in `length`. It goes with the next message; very much of it without one.
  -- While one is there, this is each call's way, so few messages are read where few are enough.
  local reached
  for _, count in ipairs({ 2, 20, 200, 1000 }) do
    local entries = redis.call('XRANGE', messages, '-', '+', 'COUNT', count)
    going = 0
    for at, entry in ipairs(entries) do
      -- with `if true then`: the number of what another program has added is taken for that of a message
      if is_ours(entry) then
        local number = number_of(entry[1])
        if number >= kept then return kept, going end
        reached, going = number + 1, at
      end
    end
    if #entries < count then return reached or first, going end
  end
  -- with `return first, 0` for `return reached or first, reached and going or 1000`: behind very much that another program has added, bounds remove nothing
  return reached or first, reached and going or 1000
end
local function trim(going)
  if going > 0 then redis.call('XTRIM', messages, 'MAXLEN', string.format('%.0f', length - going)) end
end
local function trim_to(kept)
  local _, going = reach(kept)
  trim(going)
end
