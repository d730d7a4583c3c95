-- The next batch of jobs that go back to another queue: out of a state into a list beside it, under a sequence that rises, where they stay
-- until a later call says that the other queue has them. A batch that is there already is the next one.
-- Moves:   delayed | ready | failed -> gone, by way of `departing`.
-- Replies: {sequence, or '' if there is nothing; the bridge's id for this queue; the state that they were in; `more` if the next call may find something; id, record,
--          what came back, score or '' of each job}; or `fenced <token>` (a bridge with this token has been here), `other <entries>`, and the
--          address and the purpose that the batch on its way was made for (it is not this one, and nothing was done), each in lines of its
--          own; `format <n>`, `levels <list>`.
-- Cost:    O(log n) a job, at most `cap`, or 4 MiB of records.
--- include: call/meta
if refused then return refused end
local noted = redis.call('HMGET', departed, 'token', 'sequence', 'lane', 'state', 'made_for', 'unfinished')
local noted_token, sequence, noted_lane, noted_state = noted[1], noted[2], noted[3], noted[4]
-- without: a bridge whose lock was lost goes on beside another one
if noted_token and tonumber(noted_token) > tonumber(token) then return 'fenced ' .. noted_token end
-- without: a foreign type under `departing` loses the jobs of a batch
local waiting = redis.call('LLEN', departing)
local sequence_of, other = string.match(noted[5] or '', '^(%d+)\n(.*)$')
-- An older bridge has noted none, or it has noted that of an earlier batch.
local is_known = waiting > 0 and sequence_of == sequence
-- without: a batch goes on to another old queue, also if the first one has it
if is_known and string.match(other, '\n(.*)$') ~= purpose then return 'other ' .. waiting .. '\n' .. other end
--- include: call/allow_growing
redis.call('HSET', departed, 'token', token)
-- without `and finished == sequence`: a late copy throws away a batch that is on its way
if finished ~= '' and finished == sequence then
  redis.call('DEL', departing)
  -- While its slot moves, the server refuses a key that is not there: here, where no job of the next batch has left its state yet.
  redis.call('LLEN', departing)
  waiting = 0
end
local more = ''
--- include: call/clock
local function note_sequence(noted_sequence)
  sequence, noted_lane = noted_sequence, noted_lane or lane
  local made_for = sequence .. '\n' .. address .. '\n' .. purpose
  redis.call('HSET', departed, 'sequence', sequence, 'lane', noted_lane, 'state', noted_state or state, 'made_for', made_for)
end
local function next_sequence(least)
  local last = math.max(least, tonumber(sequence or 0))
  -- A server that has lost its last writes would give the next number twice, where its clock is behind.
  -- without ` + jump`: what follows a batch that was lost in a failover is taken for that one, which the other queue has
  note_sequence(string.format('%.0f', now_us > last and now_us or last + 1 + jump))
end
if waiting > 0 then
  if noted[6] then
    -- A server that died has kept the half of a call (`docs/servers.md`): what is in the batch has left.
    --- include: job/routing
    local entries = redis.call('LRANGE', departing, '0', '-1')
    for at = 1, #entries, 4 do
      local id, record = entries[at], entries[at + 1]
      if redis.call('HGET', jobs, id) == record then
        local _, _, key = routing(record)
        if key and redis.call('HGET', keys, key) == id then redis.call('HDEL', keys, key) end
        redis.call('HDEL', returned, id)
        redis.call('HDEL', jobs, id)
      end
    end
    redis.call('HDEL', departed, 'unfinished')
  end
  -- without `and tried == sequence`: a bridge that was frozen sends a batch of the one that went on for it once more
  local is_behind = above ~= '' and tried == sequence and tonumber(sequence) <= tonumber(above)
  if not sequence or is_behind then
    -- The server lost its last writes: the other queue has a later batch, and this one not as it is.
    -- without: behind a failover the bridge asks for the same batch without an end
    next_sequence(tonumber(above) or 0)
  elseif not is_known then
    -- without: a batch of an older bridge goes on to one old queue after the other
    note_sequence(sequence)
  end
elseif cap > 0 then
  --- include: job/routing, job/stale, job/fitting
  --- include: purge/head_of_state
  --- if limited
  --- include: history/events
  --- end
  local is_unfinished = false
  -- They are in the batch before their records go: a server that dies may keep the first of these writes alone (`docs/servers.md`).
  local function forget(ids, set, members)
    local records = redis.call('HMGET', jobs, unpack(ids))
    local some = {}
    for i, record in ipairs(records) do
      if record then
        local at = #some
        some[at + 1], some[at + 2] = ids[i], record
        -- without `or ''`: a batch ends at the first job that never came back
        some[at + 3] = redis.call('HGET', returned, ids[i]) or ''
        some[at + 4] = set and redis.call('ZSCORE', set, members[i]) or ''
        --- if limited
        happened('E', ids[i], 1)
        --- end
      end
    end
    if #some > 0 then
      if not is_unfinished then
        is_unfinished, noted_state = true, state
        redis.call('HSET', departed, 'unfinished', '1')
        next_sequence(tonumber(above) or 0)
      end
      redis.call('RPUSH', departing, unpack(some))
    end
    for i, record in ipairs(records) do
      local _, _, key = routing(record or '{')
      -- without `and redis.call('HGET', keys, key) == ids[i]`: a failed job that goes back frees a key that a live job holds
      if key and redis.call('HGET', keys, key) == ids[i] then redis.call('HDEL', keys, key) end
    end
    -- without: what came back of a job that has gone stays for ever
    redis.call('HDEL', returned, unpack(ids))
    return redis.call('HDEL', jobs, unpack(ids))
  end
  local set, latest = state == 'delayed' and delayed or failed, '+inf'
  --- include: purge/out_of_state
  -- with `removed > 0` for `seen > 0`: the bridge stops at entries that no longer count
  if seen > 0 then more = 'more' end
  if removed > 0 then redis.call('HDEL', departed, 'unfinished') end
  --- if limited
  --- include: history/keep
  --- end
end
local entries = redis.call('LRANGE', departing, '0', '-1')
return { #entries > 0 and sequence or '', noted_lane or lane, noted_state or state, more, unpack(entries) }
