-- The limits of names as they will be, in `live`: names keep their numbers, and those that are no more in the list get the
-- limit 0, because jobs may be parked under them. `is_new`: names whose running jobs have no places yet.
do
  local most_of, lines, is_taken = {}, {}, {}
  for at = first_item, #ARGV, 2 do most_of[ARGV[at]] = ARGV[at + 1] end
  for number, most, name in string.gmatch(names and live_names(names) or '', '(%d+);(%d+);([^\n]*)') do
    is_taken[number] = true
    if most == '0' and most_of[name] then is_new = true end
    lines[#lines + 1] = number .. ';' .. (most_of[name] or '0') .. ';' .. name
    most_of[name] = nil
  end
  local number = 0
  for at = first_item, #ARGV, 2 do
    local name = ARGV[at]
    if most_of[name] then
      is_new = true
      repeat number = number + 1 until not is_taken[string.format('%.0f', number)]
      lines[#lines + 1] = string.format('%.0f;', number) .. most_of[name] .. ';' .. name
    end
  end
  if number <= MOST_NUMBERS then live = { #lines > 0 and live_names(table.concat(lines, '\n')) } end
end
