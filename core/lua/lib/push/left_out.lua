-- Which jobs of this call do not fit into a queue that has a length, as if they came one behind the other: a job that holds the id or
-- the key of another may be one of this very call, and may be gone again.
-- Needs: `room_left`, `if_duplicate`, `holder_of`, `has_expired`, `routing`. Gives: `growth`, by how many jobs the queue would grow; `left_out`, by the
-- index of their ids, those that have no room where the others are stored.
local growth, left_out = 0, {}
do
  -- Ids that came, with their keys, and stored ones that are gone; the keys of those that came.
  local came, gone, held = {}, {}, {}
  local function leave(holder)
    local key = came[holder]
    -- without: a key whose job was replaced in the same call counts as held
    if key and held[key] == holder then held[key] = nil end
    if key then came[holder] = nil else gone[holder] = true end
  end
  for i = first_item, #ARGV, 4 do
    local id = ARGV[i]
    local _, _, key = routing(ARGV[i + 1])
    local by_id = came[id] and id or not gone[id] and holder_of(id) or nil
    local by_key = key and held[key]
    if key and not by_key then
      by_key = holder_of('', key)
      -- without: a key whose job was replaced by its id in the same call counts as held
      if by_key and gone[by_key] then by_key = nil end
    end
    local holders = { by_id or by_key }
    if by_id and by_key and by_key ~= by_id then holders[2] = by_key end
    local are_expired = if_duplicate ~= 'replace' and #holders > 0
    for _, holder in ipairs(holders) do are_expired = are_expired and not came[holder] and has_expired(holder) end
    -- without `or are_expired`: jobs that take the place of expired ones outgrow the length
    if #holders == 0 or if_duplicate == 'replace' or are_expired then
      local grows = 1
      for _, holder in ipairs(holders) do
        -- with `true` for `came[holder] or not redis.call('ZSCORE', failed, holder)`: jobs that replace failed ones outgrow the length
        if came[holder] or not redis.call('ZSCORE', failed, holder) then grows = grows - 1 end
      end
      if if_full == 'fill' and grows > 0 and growth + grows > room_left then
        left_out[i] = true
      else
        growth = growth + grows
        for _, holder in ipairs(holders) do leave(holder) end
        came[id] = key or ''
        if key then held[key] = id end
      end
    end
  end
end
