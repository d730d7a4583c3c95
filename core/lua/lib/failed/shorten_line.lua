-- Jobs have left `failed`, as many as `left`: what waits of them at the head of the line of unheard jobs goes as well. Each call
-- looks at some more than have left, so that the line ends when `failed` does.
-- Needs: `left`.
--- include: failed/unheard_line
local fields = {}
for number = heard_to + 1, math.min(last, heard_to + 2 * left + 100) do
  fields[#fields + 1] = string.format('unheard:%.0f', number)
end
local ids, gone = #fields > 0 and redis.call('HMGET', meta, unpack(fields)) or {}, 0
for k = 1, #fields do
  -- without: a job that is still in `failed` is never reported
  if ids[k] and redis.call('ZSCORE', failed, ids[k]) then break end
  gone = k
end
if gone > 0 then
  redis.call('HDEL', meta, unpack(fields, 1, gone))
  if heard_to + gone == last then
    redis.call('HDEL', meta, 'unheard_last', 'heard_to')
  else
    redis.call('HSET', meta, 'heard_to', string.format('%.0f', heard_to + gone))
  end
end
