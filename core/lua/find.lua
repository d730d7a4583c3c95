-- Where one job is, by id or key. Read-only.
-- Moves:   nothing.
-- Replies: {} or {id, state, score or '', record, came back, token or '', now, paused, limits, what the rate has seen, how many
--          are reserved, limits of names, `<number>;<how many have a place>` of its name or '', what
--          its rate has seen or ''}.
-- Cost:    O(log n).
--- include: clock, routing, delayed_member, state_of, resolve
local id = resolve(by, ARGV[first_item])
local record = id and redis.call('HGET', jobs, id)
if not record then return {} end
local state, level = state_of(id, record)
local score = ''
if state == 'delayed' then score = redis.call('ZSCORE', delayed, delayed_member(id, level)) end
if state == 'reserved' then score = redis.call('ZSCORE', reserved, id) end
if state == 'failed' then score = redis.call('ZSCORE', failed, id) end
local known = redis.call('HMGET', meta, 'paused', 'limits', 'rate_at', 'names')
local names, name_count, name_rate = known[4], '', ''
if names then
  local named
  --- include: names
  local _, _, _, _, name = routing(record)
  local number = name and named.number_of[name]
  if number then
    name_count = string.format('%.0f;', number) .. redis.call('ZCOUNT', places, number, number)
    name_rate = redis.call('HGET', meta, 'rate_at:' .. number) or ''
  end
end
return {
  id, state, score or '', record, redis.call('HGET', returned, id) or '', redis.call('HGET', leases, id) or '',
  string.format('%.0f', now), known[1] or '0', known[2] or '', known[3] or '', redis.call('ZCARD', reserved),
  names or '', name_count, name_rate,
}
