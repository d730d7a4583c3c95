-- Keeps the results of acked jobs: (index among the acks, for how many ms, result) each; the index is 0 where the job is no ack but
-- fails for good, and only those who wait for its result are to be woken. Who lost the lease leaves none. `done` is a list so that
-- waiters can block on it; they leave its element where it is, and it ends by itself: who comes later finds the result. Where it is
-- not kept because the server has no memory, an empty one says so, which takes less than the job that goes.
-- Needs: `flags`, `next_item`, `is_full`. Gives: `next_item`, behind the results.
for i = 1, result_count do
  local at = next_item + 3 * i - 3
  local index = tonumber(ARGV[at])
  -- with `do`: who lost the lease leaves a result
  if flags[index] == '1' then
    -- without: a result that was not kept is not reported
    if is_full then flags[index] = '2' end
    -- without `is_full and '' or`: results let a full server grow
    -- without `, 'PX', ARGV[at + 1]`: results stay for ever
    redis.call('SET', result(i, result_count), is_full and '' or ARGV[at + 2], 'PX', ARGV[at + 1])
    -- A hint, as every wake-up: it must not fail the ack.
    local hint = done(i, result_count)
    -- without: a hint that something else wrote over wakes nobody
    redis.pcall('DEL', hint)
    redis.pcall('LPUSH', hint, '1')
    -- without: hints for waiters stay for ever
    redis.pcall('PEXPIRE', hint, is_full and 3000 or 60000)
  end
end
--- if full
-- without: results are taken for outcomes
next_item = next_item + 3 * result_count
--- end
