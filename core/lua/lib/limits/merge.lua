-- The limits as they will be, in `live`: names keep their numbers, and those that are no more in the list get no limit, because jobs
-- may be parked under them. `is_new`: names whose running jobs have no places yet. `unrated`: what rates that are taken away have
-- seen; what has started lately still counts where there is a rate, or every program that says its limits when it starts would
-- allow another burst.
-- Needs: `limits`, `live_limits`, `MOST_NUMBERS`, `live`, `is_new`, `unrated`. Gives: `live`, `is_new`, and more that is unrated.
do
  local wanted, lines, is_taken = {}, {}, {}
  for at = first_item, #ARGV, 2 do wanted[ARGV[at]] = ARGV[at + 1] end
  for number, had, name in string.gmatch(limits and live_limits(limits) or '', '(%d+);([%d:]*;[%d:]*);([^\n]*)') do
    is_taken[number] = true
    local is_named = name ~= ''
    -- without `(is_named or number == '0') and`: a lost limit becomes that of the queue
    -- with `wanted[name] or had` for `wanted[name] or ';'`: a limit that is taken away stays
    local limit = (is_named or number == '0') and wanted[name] or ';'
    -- without: a limit that comes again does not count what runs
    if is_named and had == ';' and limit ~= ';' then is_new = true end
    -- without: what a rate has seen outlives it
    if not string.find(limit, ':', 1, true) then unrated[#unrated + 1] = 'rate_at:' .. number end
    lines[#lines + 1] = number .. ';' .. limit .. ';' .. name
    -- without: a limit that is set again counts from nothing
    if is_named or number == '0' then wanted[name] = nil end
  end
  local number = 0
  for at = first_item, #ARGV, 2 do
    local name = ARGV[at]
    local limit = wanted[name]
    if limit and name == '' then
      lines[#lines + 1] = '0;' .. limit .. ';'
    elseif limit then
      is_new = true
      -- with `until true` for `until not is_taken[string.format('%.0f', number)]`: two names share one limit
      repeat number = number + 1 until not is_taken[string.format('%.0f', number)]
      lines[#lines + 1] = string.format('%.0f;', number) .. limit .. ';' .. name
    end
  end
  -- with `do` for `if number <= MOST_NUMBERS then`: numbers of names grow into those of other levels
  if number <= MOST_NUMBERS then live = { #lines > 0 and live_limits(table.concat(lines, '\n')) } end
end
