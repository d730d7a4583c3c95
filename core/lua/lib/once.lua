-- A call is executed once however often it is sent. A client numbers its calls and sends each through one of its slots;
-- the slot keeps the number and the answer of its last call. The same number again gets the same answer; a lower number
-- is a late copy of a call that its client has given up or has already had answered, and does nothing.
-- Borrowed from NFSv4.1 sessions (RFC 8881, 2.10.6: slot, sequence and reply cache).
local earlier
local last_call = redis.call('HGET', call, call_slot)
if last_call then
  local space = string.find(last_call, ' ', 1, true)
  local last_number = string.sub(last_call, 1, space - 1)
  if last_number == call_number then
    earlier = string.sub(last_call, space + 1)
  elseif tonumber(last_number) > tonumber(call_number) then
    earlier = 'superseded'
  end
  -- Something must be written: a newer server confirms by `WAIT` at once to a connection that has written nothing.
  if earlier and call_renew ~= '0' then redis.call('PEXPIRE', call, 1200000) end
end

-- The last thing that a script does, also when it found nothing to do: a late copy would perhaps find something, after its
-- client had the answer that there was nothing. Only an empty `reserve` is not kept, unless the client asks for it (`call_renew`): it
-- does when it sends a call again, and behind a call that it gave up. Such calls of other slots it names, ` <slot>:<number>`
-- each: who goes on must not be overtaken by them. A later call may have come through that slot; it stays as it is.
local function answer(text)
  local is_new = redis.call('HSET', call, call_slot, call_number .. ' ' .. text) == 1
  if is_new or call_renew ~= '0' then
    redis.call('PEXPIRE', call, 1200000)
    for slot, number in string.gmatch(call_renew, '(%d+):(%d+)') do
      local last_number = string.match(redis.call('HGET', call, slot) or '', '^%d+')
      if tonumber(last_number or 0) < tonumber(number) then redis.call('HSET', call, slot, number .. ' superseded') end
    end
  end
  return text
end
