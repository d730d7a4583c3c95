-- The limits of names as they will be, in `live`: names keep their numbers, and those that are no more in the list get the
-- limit 0, because jobs may be parked under them. `is_new`: names whose running jobs have no places yet. `unrated`: what rates that
-- are taken away have seen.
do
  local limits_of, lines, is_taken = {}, {}, {}
  for at = first_item, #ARGV, 2 do limits_of[ARGV[at]] = ARGV[at + 1] end
  for number, had, name in string.gmatch(names and live_names(names) or '', '(%d+);([%d:]+);([^\n]*)') do
    is_taken[number] = true
    local limit = limits_of[name] or '0'
    if had == '0' and limit ~= '0' then is_new = true end
    if not string.find(limit, ':', 1, true) then unrated[#unrated + 1] = 'rate_at:' .. number end
    lines[#lines + 1] = number .. ';' .. limit .. ';' .. name
    limits_of[name] = nil
  end
  local number = 0
  for at = first_item, #ARGV, 2 do
    local name = ARGV[at]
    if limits_of[name] then
      is_new = true
      repeat number = number + 1 until not is_taken[string.format('%.0f', number)]
      lines[#lines + 1] = string.format('%.0f;', number) .. limits_of[name] .. ';' .. name
    end
  end
  if number <= MOST_NUMBERS then live = { #lines > 0 and live_names(table.concat(lines, '\n')) } end
end
