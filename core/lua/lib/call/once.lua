-- A call is executed once however often it is sent. A client numbers its calls and sends each through one of its slots;
-- the slot keeps the number and the answer of its last call. The same number again gets the same answer; a lower number
-- is a late copy of a call that its client has given up or has already had answered, and does nothing.
-- Borrowed from NFSv4.1 sessions (RFC 8881, 2.10.6: slot, sequence and reply cache).
-- Gives: `earlier`, the answer of the same call, 'superseded', 'forgotten', or nothing; `answer`, which the script ends with.
local earlier
local last_call = redis.call('HGET', call, call_slot)
if last_call then
  local space = string.find(last_call, ' ', 1, true)
  local last_number = string.sub(last_call, 1, space - 1)
  -- with `if false then`: a call sent again is executed again
  if last_number == call_number then
    earlier = string.sub(last_call, space + 1)
  -- with `elseif false then`: a late copy of a call is executed after its client went on
  -- with `last_number > call_number` for `tonumber(last_number) > tonumber(call_number)`: call 10 is taken for a late copy, being less than 9 as text
  elseif tonumber(last_number) > tonumber(call_number) then
    earlier = 'superseded'
  end
  -- Something must be written: a newer server confirms by `WAIT` at once to a connection that has written nothing.
  -- without: a durable push that is sent again is confirmed though no replica has it
  if earlier and call_renew ~= '0' then redis.call('PEXPIRE', call, 1200000) end
-- The client was remembered minutes ago, and would be for ten minutes more: the server has lost its data.
-- with `elseif false then`: nobody hears that the server has lost its data
-- without `and redis.call('EXISTS', call) == 0`: a slot that is used for the first time is taken for lost data
elseif string.sub(call_renew, 1, 1) ~= '1' and redis.call('EXISTS', call) == 0 then
  earlier = 'forgotten'
end

-- The last thing that a script does, also when it found nothing to do: a late copy would perhaps find something, after its
-- client had the answer that there was nothing. Only an empty `reserve` is not kept, unless the client asks for it (`call_renew`): it
-- does when it sends a call again, and behind a call that it gave up. Such calls of other slots it names, ` <slot>:<number>`
-- each: who goes on must not be overtaken by them. A later call may have come through that slot; it stays as it is.
local function answer(text)
  local is_new = redis.call('HSET', call, call_slot, call_number .. ' ' .. text) == 1
  -- with `if call_renew ~= '0' then`: the answers of a client that is gone stay for ever
  -- with `if is_new then`: the answers of a busy client vanish after 20 minutes
  if is_new or call_renew ~= '0' then
    redis.call('PEXPIRE', call, 1200000)
    -- with `''` for `call_renew`: a call that was given up wins over a newer one that used another slot
    for slot, number in string.gmatch(call_renew, '(%d+):(%d+)') do
      local last_number = string.match(redis.call('HGET', call, slot) or '', '^%d+')
      -- with `do` for `if tonumber(last_number or 0) < tonumber(number) then`: a later call of the slot is forgotten, and executed again when it is sent again
      if tonumber(last_number or 0) < tonumber(number) then redis.call('HSET', call, slot, number .. ' superseded') end
    end
  end
  return text
end
