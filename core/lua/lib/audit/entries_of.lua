-- How many entries each of these ids has in each ready list, `<level>=<number>` joined by commas, in one walk through the lists.
-- Gives: `entries_of`.
local function entries_of(ids)
  local found = {}
  for _, id in ipairs(ids) do found[id] = {} end
  for level in string.gmatch(passed_levels, '%d') do
    local list, at = ready(level), 0
    repeat
      local entries = redis.call('LRANGE', list, at, at + 999)
      for _, id in ipairs(entries) do
        local of_id = found[id]
        if of_id then of_id[level] = (of_id[level] or 0) + 1 end
      end
      at = at + 1000
    until #entries < 1000
  end
  local texts = {}
  for id, of_id in pairs(found) do
    local counts = {}
    for level in string.gmatch(passed_levels, '%d') do
      if of_id[level] then counts[#counts + 1] = level .. '=' .. string.format('%.0f', of_id[level]) end
    end
    texts[id] = table.concat(counts, ',')
  end
  return texts
end
