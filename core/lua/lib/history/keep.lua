-- Writes down what happened in this call: `<number>;<events so far>;<ms>;<origin>` in front of its first event. The number is that of the
-- element in the list, counted from the first one that was ever there; `meta.history` has the next one, and the sum. What is too old, or more
-- than the history may keep, goes from the head, two thousand elements at most: each time that a tenth is new, because to look costs as much
-- as to write.
-- Needs: `events` and `event_count` of `history/events`, `origin`, what `call/meta` and `call/clock` give. Gives: nothing. It must not fail the verb.
if events and event_count > 0 then
  local most, age_ms, number, total = string.match(noted_history, '^(%d+);(%d+);?(%d*);?(%d*)$')
  if most then
    number = tonumber(number) or 1
    local before = tonumber(total) or 0
    total = before + event_count
    events[1] = string.format('%.0f;%.0f;', number, total) .. now_text .. ';' .. origin .. events[1]
    for k = 2, #events, 2 do
      if type(events[k]) == 'table' then events[k] = table.concat(events[k], '\n') end
    end
    -- Before the number in `meta`: who reads on from a number passes by what has a lower one, but by nothing else.
    local noted = redis.pcall('RPUSH', history, unpack(events))
    if type(noted) == 'number' then
      redis.pcall('HSET', meta, 'history', most .. ';' .. age_ms .. string.format(';%.0f;%.0f', number + #events, total))
      local tenth = math.max(100, most / 10)
      -- with `false` for `math.floor(total / tenth) > math.floor(before / tenth)`: a history grows without bound
      if math.floor(total / tenth) > math.floor(before / tenth) then
        local gone = 0
        while gone < 2000 do
          local head = redis.call('LINDEX', history, gone) or ''
          local its_total, at = string.match(head, '^%d+;(%d+);(%d+);')
          if head == '' or its_total and tonumber(its_total) > total - most and tonumber(at) >= now - age_ms then break end
          -- With its ids, which are long and not read.
          gone = gone + (string.find(head, '\t', 1, true) and 2 or 1)
        end
        if gone > 0 then redis.call('LTRIM', history, gone, '-1') end
      end
    end
  end
end
