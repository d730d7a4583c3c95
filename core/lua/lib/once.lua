-- A call is executed once however often it is sent. A client numbers its calls and sends each through one of its slots;
-- the slot keeps the number and the answer of its last call. The same number again gets the same answer; a lower number
-- is a late copy of a call that its client has given up or has already had answered, and does nothing.
-- Borrowed from NFSv4.1 sessions (RFC 8881, 2.10.6: slot, sequence and reply cache).
local REMEMBER_MS = 1200000

local function answer_of_earlier_send()
  local last = redis.call('HGET', call, call_slot)
  if not last then return nil end
  local space = string.find(last, ' ', 1, true)
  local last_number = string.sub(last, 1, space - 1)
  if last_number == call_number then return string.sub(last, space + 1) end
  if tonumber(last_number) > tonumber(call_number) then return 'superseded' end
  return nil
end

-- Must be the last thing that a script does, and be done whenever it changed something.
local function answer(text)
  local is_new = redis.call('HSET', call, call_slot, call_number .. ' ' .. text) == 1
  if is_new or call_renew == '1' then redis.call('PEXPIRE', call, REMEMBER_MS) end
  return text
end
