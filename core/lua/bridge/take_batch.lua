-- The next batch of a lane: jobs of another queue go out of its list or sorted set into a list of the bridge, under a sequence that
-- rises, and stay there until a later call says that the batch is in. Jobs of it that duly cannot take over go back to the other queue.
-- Moves:   the other queue's key -> in flight -> gone, or back to that key.
-- Keys:    the other queue's list or sorted set; the bridge's list and its hash, both of this lane alone; with `held` also the key that
--          has the jobs.
-- Replies: {sequence, or '' if there is nothing; the lane's id; how many that went back lie before this batch; `more` if the next call
--          may find something; how many entries this bridge has dropped so far, because they name no job; the entries of the batch, from
--          a sorted set each with its score}; or `fenced <token>`: a bridge with this token has been here; or `other <entries>`, and the
--          address and the purpose that the batch in flight was made for, each in lines of its own: that is not this one, and nothing
--          was done; or `foreign <key>`: an entry names this key, which holds no job.
-- Cost:    O(log n) an entry: at most `most`, and no more after `most_bytes`; in a list O(those that went back), too.
local noted = redis.call('HMGET', state, 'token', 'sequence', 'lane', 'kept', 'mark', 'dropped', 'made_for')
local noted_token, sequence, noted_lane = noted[1], noted[2], noted[3]
local kept_before, mark, dropped = tonumber(noted[4] or 0), noted[5], tonumber(noted[6] or 0)
-- without: a bridge whose lock was lost goes on beside another one
if noted_token and tonumber(noted_token) > tonumber(token) then return 'fenced ' .. noted_token end
-- without: a foreign type under the bridge's list loses a batch
local waiting = redis.call('LLEN', in_flight)
local sequence_of, other = string.match(noted[7] or '', '^(%d+)\n(.*)$')
-- An older bridge has noted none, or it has noted that of an earlier batch.
local is_known = waiting > 0 and sequence_of == sequence
-- without: a batch goes on to another queue, which does not know which of its jobs the first one has
if is_known and string.match(other, '\n(.*)$') ~= purpose then return 'other ' .. waiting .. '\n' .. other end
--- include: bridge/old_page
-- A server without memory refuses the first write that grows, and no other: this moves entries, and grows nothing for long.
-- without: a full server cannot be emptied
redis.call('HDEL', state, '')
-- Jobs that went back are the oldest of the key, as far as the one that is marked, unless workers of the other queue have taken some of
-- them. A bridge reads all of them once.
local function note_kept(count, newest)
  kept_before = count
  if count == 0 then
    redis.call('HDEL', state, 'kept', 'mark')
  elseif newest then
    mark = redis.sha1hex(newest)
    redis.call('HSET', state, 'kept', count, 'mark', mark)
  else
    redis.call('HSET', state, 'kept', count)
  end
end
local function note_sequence(noted_sequence)
  sequence, noted_lane = noted_sequence, noted_lane or lane
  local made_for = sequence .. '\n' .. address .. '\n' .. purpose
  redis.call('HSET', state, 'sequence', sequence, 'lane', noted_lane, 'made_for', made_for)
end
local function next_sequence(least)
  local last = math.max(least, tonumber(sequence or 0))
  -- A server that has lost its last writes would give the next number twice, where its clock is behind.
  -- without ` + jump`: what follows a batch that was lost in a failover is taken for that one, which is in
  note_sequence(string.format('%.0f', now_us > last and now_us or last + 1 + jump))
end
-- without: a batch of an older bridge goes on to one queue after the other
if waiting > 0 and sequence and not is_known then note_sequence(sequence) end
if noted_token ~= token then
  redis.call('HSET', state, 'token', token)
  -- without: a bridge says nothing of what stayed before it
  note_kept(0)
  -- without 2 lines: a bridge counts what another one has dropped
  redis.call('HDEL', state, 'dropped')
  dropped = 0
end

-- without `and finished == sequence`: a late copy throws away the batch behind its own
if finished ~= '' and finished == sequence then
  local back, left = {}, {}
  -- Those that the target has no room for are the next batch.
  if rest ~= '' then
    local entries = redis.call('LRANGE', in_flight, '0', '-1')
    for index in string.gmatch(rest, '%d+') do
      for at = (index - 1) * width + 1, index * width do left[#left + 1] = entries[at] end
    end
  end
  for index in string.gmatch(kept, '%d+') do
    local at = (index - 1) * width
    local entry = redis.call('LINDEX', in_flight, at)
    -- A copy of this call finds none any more.
    if entry and has_scores then
      local score, tag = string.match(redis.call('LINDEX', in_flight, at + 1), '^(%S+)\t(.*)$')
      redis.call('ZADD', source, score, tag)
      redis.call('HSET', companion, tag, entry)
      note_kept(kept_before + 1, tag)
    elseif entry then
      back[#back + 1] = entry
    end
  end
  -- To where its workers take next, the oldest last.
  -- without: what stays is lost
  for i = #back, 1, -1 do redis.call('RPUSH', source, back[i]) end
  -- without: what stays is read again without an end
  if #back > 0 then note_kept(kept_before + #back, kept_before == 0 and back[#back] or nil) end
  -- without: jobs that the target has no room for are lost
  if #left > 0 then redis.call('RPUSH', in_flight, unpack(left)) end
  -- without: what is left of a batch is taken for all of it, which is in
  if #left > 0 then next_sequence(above or 0) end
  -- The last one: a server that dies may keep the first of these writes alone (`docs/servers.md`).
  redis.call('LTRIM', in_flight, waiting, '-1')
  waiting = #left
end

local length = has_scores and redis.call('ZCARD', source) or 0
if not has_scores then length = redis.call('LLEN', source) end
local more = ''
-- without `and tried == sequence`: a bridge that was frozen stores a batch of the one that went on for it once more
local is_behind = above and tried == sequence and tonumber(sequence) <= above
-- with `if false then`: behind a failover the bridge asks for the same batch without an end
if waiting > 0 and (not sequence or is_behind) then
  -- The server lost its last writes, or somebody deleted the hash: a later batch of this lane is in, and this one was not stored as it is.
  next_sequence(above or 0)
-- with `else`: a batch that is in flight grows behind its sequence, and the rest of it is never stored
elseif waiting == 0 then
  if kept_before > 0 then
    -- Workers of the other queue have taken the oldest of them meanwhile, or somebody has done something else.
    -- with `local still, before = kept_before, 0`: what comes behind jobs that stayed stays, when workers have taken these
    local still, before = 0, math.min(kept_before, length)
    for _, count in ipairs({ 1, 500 }) do
      local from = math.max(0, before - count)
      local entries = still == 0 and before > from and page(from, before - from) or {}
      for i = 1, #entries, width do
        if redis.sha1hex(entries[i]) == mark then still = from + (i + width - 1) / width end
      end
    end
    if still ~= kept_before then note_kept(still) end
  end
  local batch, seen, taken, bytes, gone = {}, 0, 0, 0, 0
  local members, is_taken = {}, {}
  if most > 0 and length > 0 then
    repeat
      local entries = page(kept_before + seen, math.min(16, most - seen))
      for i = 1, #entries, width do
        -- Its id may be there twice.
        local entry, foreign
        if not is_taken[entries[i]] then entry, foreign = entry_of(entries[i]) end
        -- without: an entry whose job nobody can read is dropped
        if foreign then return 'foreign ' .. foreign end
        bytes = bytes + (entry and #entry or 0)
        -- without: a batch of large jobs is more than one reply may be
        if taken > 0 and bytes > most_bytes then break end
        seen = seen + 1
        if not entry then
          gone = gone + 1
        else
          taken = taken + 1
          if held ~= 'here' then
            members[#members + 1] = entries[i]
            -- without: a job of gmq whose id is there twice comes over twice
            is_taken[entries[i]] = true
          end
          batch[#batch + 1] = entry
          -- What goes back needs its tag.
          if width == 2 then batch[#batch + 1] = held == 'field' and entries[i + 1] .. '\t' .. entries[i] or entries[i + 1] end
        end
      end
    until #entries == 0 or seen >= most or bytes > most_bytes
  end
  -- A server that dies may keep the first of these writes alone: the sequence, or the batch would be taken for the one before it; the batch;
  -- and then what it leaves behind (`docs/servers.md`).
  if taken > 0 then
    next_sequence(0)
    redis.call('RPUSH', in_flight, unpack(batch))
    for _, member in ipairs(members) do
      -- without: a job of Celery's workers is with them, and comes over
      if held == 'field' then redis.call('HDEL', companion, member) end
      -- without: the hash of a job of gmq that came over stays
      if held == 'hash' then redis.call('DEL', companion .. ':' .. member) end
    end
  end
  if seen > 0 then
    if has_scores then
      redis.call('ZREMRANGEBYRANK', source, kept_before, kept_before + seen - 1)
    elseif order == 'left' or kept_before + seen == length then
      redis.call('LTRIM', source, seen, '-1')
    elseif kept_before == 0 then
      redis.call('LTRIM', source, '0', -seen - 1)
    else
      -- A list has no middle to cut out: what is in the place of each entry goes by its value.
      local nothing = '\0duly:' .. (noted_lane or lane)
      -- without: jobs behind those that stayed come over again and again
      for at = 1, seen do redis.call('LSET', source, -kept_before - at, nothing) end
      -- without: the other queue has an entry of nothing for each job that came over
      redis.call('LREM', source, -seen, nothing)
    end
    more = 'more'
    -- In the hash: the reply may be lost.
    -- without 4 lines: entries that name no job look as if somebody else had taken them
    if gone > 0 then
      dropped = dropped + gone
      redis.call('HSET', state, 'dropped', dropped)
    end
  end
end
local entries = redis.call('LRANGE', in_flight, '0', '-1')
return { #entries > 0 and sequence or '', noted_lane or lane, kept_before, more, dropped, unpack(entries) }
