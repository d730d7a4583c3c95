-- The limits of the queue and of names of its jobs, a line each: `<number>;<concurrency>;<jobs>:<us>;<name>`, with nothing where it
-- does not limit. Number 0 is the queue, which has no name. Where both are nothing the limit was taken away; the name is empty
-- where it was lost with `meta`, and so is that of a job without a name.
-- Needs: `limits`, `limited`. Gives: `limited`, with a list of all of them, those of names, by number and by name.
do
  --- include: limits/parked
  local list, names, by_number, by_name = {}, {}, {}, {}
  for number, most, starts, us, name in string.gmatch(limits, '(%d+);(%d*);(%d*):?(%d*);([^\n]*)') do
    local limit = { number = tonumber(number), most = tonumber(most), jobs = tonumber(starts), us = tonumber(us) }
    -- Text that duly did not write is no limit.
    if limit.most == 0 then limit.most = nil end
    if not limit.us or limit.us == 0 or limit.jobs == 0 then limit.jobs = nil end
    -- with `not limit.most` for `not (limit.most or limit.jobs)`: jobs of a name with a rate have no places
    limit.is_gone = not (limit.most or limit.jobs)
    list[#list + 1] = limit
    -- Nothing is parked under number 0.
    if limit.number > 0 then names[#names + 1] = limit end
    by_number[limit.number] = limit
    -- with `do` for `if name ~= '' then`: jobs without a name count as of a lost one
    if name ~= '' then by_name[name] = limit end
  end
  limited = { list = list, names = names, by_number = by_number, by_name = by_name, first_parked = first_parked }
end
