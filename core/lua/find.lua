-- Where one job is, by id or key. Read-only.
-- Moves:   nothing.
-- Replies: {} or {id, state, score or '', record, came back, token or '', now, paused, limits, and of the
--          queue's and that of its name: number, how many jobs have a place under it, what its rate has seen or ''}.
-- Cost:    O(log n).
--- include: call/clock, job/routing, job/delayed_member, job/state_of, job/resolve
local id = resolve(ARGV[first_item])
local record = id and redis.call('HGET', jobs, id)
if not record then return {} end
local state, level = state_of(id, record)
local score = ''
if state == 'delayed' then score = redis.call('ZSCORE', delayed, delayed_member(id, level)) end
if state == 'reserved' then score = redis.call('ZSCORE', reserved, id) end
if state == 'failed' then score = redis.call('ZSCORE', failed, id) end
local paused, limits = unpack(redis.call('HMGET', meta, 'paused', 'limits'))
local used = {}
if limits then
  local limited
  --- include: limits/limited, limits/usage
  local _, _, _, _, name = routing(record)
  for _, limit in ipairs({ limited.by_number[0] or false, name and limited.by_name[name] or false }) do
    if limit then add_usage(used, limit) end
  end
end
return {
  id, state, score or '', record, redis.call('HGET', returned, id) or '', redis.call('HGET', leases, id) or '',
  string.format('%.0f', now), paused or '0', limits or '', used,
}
