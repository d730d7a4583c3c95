-- Large records are not read by the hundred, only to be left behind. Where there may be large ones the size of each is read; else that
-- of the first, because another program that wrote records may not have said how large they are.
-- Needs: `entries`, `length`, `bytes`, `max_bytes`, `some_large`, `more`. Gives: `length` and `more`, and takes the entries out
-- that do not fit.
local fitting
-- with `if false then`: a hundred large records behind a small one are read to hand out four
if some_large then
  --- include: job/fitting
  fitting = count_fitting(entries, max_bytes - bytes)
else
  fitting = math.floor((max_bytes - bytes) / math.max(redis.call('HSTRLEN', jobs, entries[1]), 1))
end
-- with `for k = length, length + 1, -1 do`: a hundred large records are read to hand out one
for k = length, math.max(fitting, 1) + 1, -1 do
  entries[k] = nil
  length = k - 1
  more = true
end
