-- Makes a member of a topic, and its subscription, if there is none yet. The cursor of one that is there stays where it is. Members that
-- were silent for longer than messages are kept go, and so does what is known of cuts of then.
-- Moves:   nothing.
-- Replies: `made`, `joined` or `known`; `other <subscription>` if the member has another one; or `format <n>`.
-- Cost:    O(1) for a member that is known, else O(members); at most 100 of them go.
--- include: call/clock, topic/state, topic/first_of_ours, topic/fields, call/once
-- without: a late copy of a subscription keeps messages for nobody
if earlier then return earlier end
local was = redis.call('HGET', topic, 'member:' .. member)
if was and was ~= subscription then return answer('other ' .. was) end
-- A server without memory lets a member come back that is known: then its first write must not grow.
-- without: a server without memory does not let a member come back
if was and redis.call('ZSCORE', floors, subscription) then redis.call('HDEL', topic, '') end
local made = was and 'known' or 'joined'
if not redis.call('ZSCORE', floors, subscription) then
  made = 'made'
  local read, read_ms = last, last_ms
  -- without 4 lines: a member that asks for what is there does not get it
  if from_earliest == '1' then
    local oldest, is_end = first_of_ours()
    -- with `first` for `oldest and number_of(oldest[1]) or is_end and last + 1 or first`: it is told to have lost what another program had removed before
    read, read_ms = (oldest and number_of(oldest[1]) or is_end and last + 1 or first) - 1, 0
  end
  local id = string.format('%.0f-%.0f', read_ms, read)
  -- A server that died may have kept the half of a call that made or ended it (`docs/servers.md`): it is there when it has a floor.
  local created = redis.pcall('XGROUP', 'CREATE', messages, subscription, id, 'MKSTREAM')
  if created.err then
    if not string.find(created.err, 'BUSYGROUP', 1, true) then return created end
    redis.call('XGROUP', 'DESTROY', messages, subscription)
    redis.call('XGROUP', 'CREATE', messages, subscription, id)
  end
  redis.call('HSET', topic, 'at:' .. subscription, id, 'ours:' .. subscription, id, 'tag:' .. subscription, tag)
  redis.call('ZADD', floors, string.format('%.0f', read + 1), subscription)
  -- without: a subscription that was made again is told that it was cut off
  redis.call('HDEL', topic, 'cut:' .. subscription)
end
redis.call('HSET', topic, 'member:' .. member, subscription, 'seen:' .. member, now_text)
if made == 'known' then return answer(made) end

local over = now - tonumber(redis.call('HGET', topic, 'max_age_ms') or default_age_ms)
local subscription_of, seen, cut_at, members = {}, {}, {}, {}
for field, value in pairs(fields_of({ member = true, seen = true, cut = true })) do
  local kind, name = string.match(field, '^(%a+):(.*)$')
  if kind == 'member' then
    subscription_of[name] = value
    members[value] = (members[value] or 0) + 1
  elseif kind == 'seen' then
    seen[name] = tonumber(value)
  elseif kind == 'cut' then
    cut_at[name] = tonumber(string.match(value, '^%d+'))
  end
end
local most = 100
for name, of in pairs(subscription_of) do
  if most > 0 and (seen[name] or 0) < over then
    local has_group = redis.call('ZSCORE', floors, of)
    -- The last one stays: its subscription reads on, or is cut off. So does who has pulled something that it has not acked.
    -- with `local goes = not has_group`: a member of a subscription that was cut off just now hears that it is a stranger
    local goes = not has_group and (cut_at[of] or 0) < over
    -- without: members that are gone stay for ever
    -- without `and members[of] > 1`: a subscription loses its last member
    -- with `true` for `#redis.call('XPENDING', messages, of, '-', '+', 1, name) == 0`: what a silent member holds is lost
    if has_group and members[of] > 1 then goes = #redis.call('XPENDING', messages, of, '-', '+', 1, name) == 0 end
    if goes then
      redis.call('HDEL', topic, 'member:' .. name, 'seen:' .. name, 'got:' .. name, 'lease:' .. name)
      -- without: consumers of members that are gone stay for ever
      if has_group then redis.call('XGROUP', 'DELCONSUMER', messages, of, name) end
      members[of], most = members[of] - 1, most - 1
    end
  end
end
for name, at in pairs(cut_at) do
  -- without: what is known of cuts stays for ever
  if at < over then redis.call('HDEL', topic, 'cut:' .. name) end
end
return answer(made)
