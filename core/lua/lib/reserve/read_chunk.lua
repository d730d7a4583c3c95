-- Reads a chunk of a list, or of what a limit of a name held back, and moves nothing: how much of it fits into the reply.
-- Needs: `list`, `level`, `asked`, `may_be_stale`, `some_large`, `held`, `limited`, `granted`, `now`, `some_came_back`, `bytes`, `parked_bytes`, `dropped_bytes`,
-- `looked_at`, `left_behind`, except in the plain text `drops_expired`, and a loop that it leaves where there is nothing. Gives: `entries` and their `records`, of which the
-- first `fit` fit and `gone` are of jobs that are gone; `length`; `more`: others are behind them; `is_stale`, `limit_of`,
-- `is_full`, and what `reserve/find_expired` gives; `left_behind`; and `bytes`, `parked_bytes` and `looked_at` with those of the chunk.

-- One more than asked for shows whether jobs are left behind.
--- if limited
local entries = held and limited.first_parked(held.number, level, asked + 1) or redis.call('LRANGE', list, '0', asked)
--- else
local entries = redis.call('LRANGE', list, '0', asked)
--- end
local length = #entries
if length == 0 then break end
local more = length > asked
if more then
  entries[length] = nil
  length = asked
end
if length > 1 then
  --- include: reserve/drop_large
end
looked_at = looked_at + length
local records = redis.call('HMGET', jobs, unpack(entries))
local is_stale
if may_be_stale then
  --- include: reserve/find_stale
end
--- if limited
local expired, key_of, limit_of, is_full
if drops_expired then
  --- include: reserve/find_expired
end
if limited then
  --- include: reserve/find_full
end
--- end
local fit, gone = length, 0
for k = 1, length do
  local record = records[k]
  if record then
    bytes = bytes + #record
    -- with `if bytes > max_bytes then`: a job larger than the limit is never handed out
    -- with `granted + k > 1` for `granted + k - gone > 1`: a cancelled entry holds back the large job behind it
    -- with `if false and` for `if bytes > max_bytes and`: a reply of any size
    if bytes > max_bytes and granted + k - gone > 1 then
      fit = k - 1
      left_behind = true
      break
    end
  else
    gone = gone + 1
  end
end
