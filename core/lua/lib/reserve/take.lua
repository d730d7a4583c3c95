-- Takes jobs off the ready lists, the first level first, chunk by chunk. All of a chunk is read first, so that a wrong type or a huge
-- record stops it before anything moved; entries of jobs that were cancelled or moved since are skipped.
-- Needs: what `call/meta`, `call/clock`, `reserve/check_types`, `reserve/within_limits` and `reserve/next_token` give, `paused`, `some_large`,
-- `reply`, except in the plain text what `history/events` gives. Gives: `granted`, how many of them the reply has; `ends` and `lease_pairs` for their leases, `place_pairs` for the
-- places of names, `granted_texts` for the call that comes again; `left_behind`: more could be taken;
-- and except in the plain text what `reserve/drop_expired` gives.
local READ_CHUNK = 100
-- So many entries that no longer count go without a look at each.
local stale_left = 1000
local granted, bytes = 0, 0
local left_behind = false
local lease_pairs, ends, granted_texts = {}, {}, {}
--- if limited
local place_pairs = {}
local drops_expired = limited or sweeps == 1
local dropped, dropped_bytes, first_dropped, awaited = 0, 0, nil, {}
--- end

-- with `if want > 0 then`: a paused queue hands out jobs
if want > 0 and not paused then
  for i = 1, #levels do
    local level = string.sub(levels, i, i)
    local list = ready(level)
    --- if limited
    local next_held = 1
    repeat
      -- What limits of names held back is older than what is in the list.
      -- with `local held`: what a limit of a name held back never runs
      local held = held_names and held_names[next_held]
      next_held = next_held + 1
      local parked_bytes = 0
      local may_be_stale = some_stale and not held
      --- else
      local may_be_stale = some_stale
      --- end
      local looked_at = 0
      while granted < want and not left_behind do
        local asked = math.min(want - granted, READ_CHUNK)
        --- if limited
        -- without: held back jobs are taken out and put back again and again
        if held then asked = math.min(asked, limited.room(held)) end
        if asked == 0 then break end
        --- end
        if may_be_stale then
          --- include: job/stale_run
        end
        --- include: reserve/read_chunk
        --- if limited
        if not held then
          redis.call('LTRIM', list, fit, '-1')
        elseif fit > 0 then
          redis.call('ZREM', parked, unpack(entries, 1, fit))
        end
        if limited then
          --- include: reserve/take_places
        end
        --- else
        redis.call('LTRIM', list, fit, '-1')
        --- end
        if fit < length or gone > 0 then
          --- include: job/stale
          local kept_ids, kept_records = {}, {}
          for k = 1, fit do
            if is_stale and is_stale[k] then skip_stale(level, entries[k]) end
            -- with `do`: entries of jobs that are gone are handed out
            if records[k] then
              kept_ids[#kept_ids + 1] = entries[k]
              kept_records[#kept_records + 1] = records[k]
            end
          end
          --- if limited
          if drops_expired then
            --- include: reserve/drop_expired
          end
          --- end
          entries, records = kept_ids, kept_records
        end
        local count = #entries
        if count > 0 then
          --- include: reserve/hand_over
        end
        --- if limited
        -- without `or parked_bytes > max_bytes`: one reserve reads any number of large records only to put them aside
        -- without `looked_at >= 10 * want + 100 or`: one reserve walks through any number of cancelled entries
        if more and (granted == want and not held or looked_at >= 10 * want + 100 or parked_bytes > max_bytes) then
          left_behind = true
        end
        -- Over all levels and names, each of which may have many.
        -- without 3 lines: one reserve drops any number of expired jobs that limits of names held back
        if dropped >= 10 * want + 100 or dropped_bytes > max_bytes then
          left_behind = true
        end
        --- else
        -- with `granted == want` for `(granted == want or looked_at >= 10 * want + 100)`: one reserve walks through any number of cancelled entries
        if more and (granted == want or looked_at >= 10 * want + 100) then left_behind = true end
        --- end
        if not more then break end
      end
    --- if limited
    until not held
    -- without: jobs behind those that were held back are left and nobody is woken
    if limited and granted == want and not left_behind then left_behind = redis.call('EXISTS', list) == 1 end
    --- end
    if granted == want and not left_behind and i < #levels then
      left_behind = redis.call('EXISTS', ready(string.sub(levels, i + 1, i + 1))) == 1
    end
  end
end
--- if limited
if dropped > 0 then
  local at = #reply
  reply[at + 1], reply[at + 2], reply[at + 3] = {}, awaited, { dropped, unpack(first_dropped) }
end
--- end
