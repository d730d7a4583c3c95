-- A member of `delayed` names the level too, unless it is the default, so that promoting a job need not read its record.
-- Gives: `delayed_member`.
local function delayed_member(id, its_level)
  -- without: the member is spelled in another way than other scripts do
  if its_level == '5' then return id end
  return id .. '\t' .. its_level
end
