-- Writes down what happened in this call: `<number>;<events so far>;<ms>;<origin>` in front of its first event. The number is that of the
-- element in the list, counted from the first one; `meta.history` has the next one, and the sum. What is too old, or more
-- than the history may keep, goes from the head, call by call, some two thousand elements at a time: more than can come until it is looked again,
-- which is each 500 events, or sooner, because to look costs as much as to write.
-- Needs: `events` and `event_count` of `history/events`, `origin`, what `call/meta` and `call/clock` give. Gives: nothing. It must not fail the verb.
if events and event_count > 0 then
  local most, age_ms, number, total = string.match(noted_history, '^(%d+);(%d+);?(%d*);?(%d*)$')
  if most then
    -- Another list, under other numbers: `meta` was lost, or a client that knows of no history has deleted the queue.
    -- without: of a history that begins again nothing is found
    if number == '' and type(redis.pcall('LLEN', history)) == 'number' then redis.pcall('DEL', history) end
    -- So does a client that takes away limits and knows of no history.
    if not noted_limits then
      -- without: the plain text of a script is executed, and notes nothing
      redis.pcall('HSET', meta, 'limits', '')
      -- without: a length that was taken away with the limits comes back with a history
      redis.pcall('HDEL', meta, 'max_length')
    end
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
      local step = math.max(100, math.min(500, most / 10))
      -- with `false` for `math.floor(total / step) > math.floor(before / step)`: a history grows without bound
      if math.floor(total / step) > math.floor(before / step) then
        local at, gone = 0, 0
        repeat
          local head = redis.pcall('LINDEX', history, at)
          if type(head) ~= 'string' then break end
          local its_total, its_ms = string.match(head, '^%d+;(%d+);(%d+);')
          if its_total then
            -- without: who reads on begins in the middle of a call
            gone = at
            if tonumber(its_total) > total - most and tonumber(its_ms) >= now - age_ms then break end
          end
          -- With its ids, which are long and not read.
          at = at + (string.find(head, '\t', 1, true) and 2 or 1)
        until gone >= 2000
        if gone > 0 then redis.pcall('LTRIM', history, gone, '-1') end
      end
    end
  end
end
