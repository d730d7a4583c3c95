-- A token that is a multiple of this says that its job was fetched ahead by a worker, and starts later, if at all. It costs
-- nothing where an entry of its own beside each lease would cost every job a write. Gives: `AHEAD`.
local AHEAD = 16
