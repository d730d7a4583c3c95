-- Owners that no longer want a lock, the last one first: `+` before one that gave it up while it held it, `-` before one that had
-- lost it, or only asked for it. A copy of `lock` that comes late takes the lock for none of them. A copy that is later than sixteen
-- others holds it up for its time to live, once.
-- Needs: `given_up`. Gives: `with_given_up`.
local function with_given_up(sign, who) return string.sub(sign .. who .. (given_up or ''), 1, 272) end
