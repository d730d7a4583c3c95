-- What workers have counted of runs: in the last `minutes` minutes; in `tens` times ten minutes, leaving out the last `skip` of them;
-- and with `total` 1 of all time. Read-only.
-- Moves:   nothing.
-- Replies: {now, and of each that is there its window, whose it is, and its tally}: a window is `m<minutes since 1970>`,
--          `t<ten minutes since 1970>` or `a`; whose: `=` the queue's, `:<name>` those of a name, `+` those of all other names.
-- Cost:    O(windows * names), at most 480 minutes and 10 times 200 names.
--- include: call/clock
local minute, ten = math.floor(now / 60000), math.floor(now / 600000)
local reply = { now_text }
local function give(window, whose)
  local tally = redis.call('HGET', rates, string.sub(window, 1, 1) == 'm' and window or window .. whose)
  if tally then
    reply[#reply + 1] = window
    reply[#reply + 1] = whose
    reply[#reply + 1] = tally
  end
end
local function give_names(window)
  give(window, '=')
  give(window, '+')
  local names = redis.call('HGET', rates, 'n' .. window) or ''
  for name in string.gmatch(names, '([^\n]*)\n') do give(window, ':' .. name) end
end
for back = minutes - 1, 0, -1 do give('m' .. (minute - back), '=') end
for back = skip + tens - 1, skip, -1 do give_names('t' .. (ten - back)) end
if total == 1 then give_names('a') end
return reply
