-- One page of the jobs in a state, in the order in which they will be taken. Read-only.
-- Moves:   nothing.
-- Replies: {id, score or '', record, came back, id, ...}; a ready entry that no longer counts is left out.
-- Cost:    O(offset + limit) for ready, O(log n + limit) else; at most 1,000.
local reply = {}
local function add(id, score)
  local record = redis.call('HGET', jobs, id)
  if record then
    reply[#reply + 1] = id
    reply[#reply + 1] = score
    reply[#reply + 1] = record
    reply[#reply + 1] = redis.call('HGET', returned, id) or ''
  end
end

if state == 'ready' then
  -- A stale entry is the first of its id in its list, so those in front of the page are looked at too when there are any.
  local some_stale = redis.call('HLEN', stale) > 0
  local skip, left = offset, limit
  for level in string.gmatch(passed_levels, '%d') do
    local length = redis.call('LLEN', ready(level))
    if skip >= length then
      skip = skip - length
    elseif left > 0 then
      local skipped = {}
      local first = some_stale and 0 or skip
      local entries = redis.call('LRANGE', ready(level), first, skip + left - 1)
      for i, id in ipairs(entries) do
        local stale_count = some_stale and tonumber(redis.call('HGET', stale, level .. ':' .. id) or 0) or 0
        if (skipped[id] or 0) < stale_count then
          skipped[id] = (skipped[id] or 0) + 1
        elseif first + i > skip then
          add(id, '')
        end
      end
      left = left - (first + #entries - skip)
      skip = 0
    end
  end
else
  local set = state == 'delayed' and delayed or state == 'reserved' and reserved or failed
  local members = redis.call('ZRANGE', set, offset, offset + limit - 1, 'WITHSCORES')
  for i = 1, #members, 2 do
    -- The last to fail are the first that somebody wants to see, but paging needs an order that does not shift.
    add(string.match(members[i], '^[^\t]*'), members[i + 1])
  end
end
return reply
