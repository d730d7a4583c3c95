-- What a subscription that was cut off has lost: all that is gone by now, as what came behind the cut may be gone, too.
-- Needs: `first`. Gives: `lost_by`, which makes `<ms> <first> <last>` of what is kept of a cut.
local function lost_by(cut_off)
  local begin, last_then = string.match(cut_off, '^(%d+ %d+) (%d+)$')
  -- with `last_then` for `math.max(tonumber(last_then), first - 1)`: what goes behind a cut is not told
  return string.format('%s %.0f', begin, math.max(tonumber(last_then), first - 1))
end
