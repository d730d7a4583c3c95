-- Keeps the results of acked jobs, behind the acks: (place among the acks, for how many ms, result) each; the place is 0 where the
-- job is no ack but fails for good, and only those who wait for its result are to be woken. Who lost the lease leaves none. `done` is a list so that waiters can block on it; they leave its element where it is, and it ends by itself:
-- who comes later finds the result.
for i = 1, result_count do
  local at = next_item + 3 * i - 3
  if flags[tonumber(ARGV[at])] == '1' then
    redis.call('SET', result(i, result_count), ARGV[at + 2], 'PX', ARGV[at + 1])
    -- A hint, as every wake-up: it must not fail the ack.
    local hint = done(i, result_count)
    redis.pcall('DEL', hint)
    redis.pcall('LPUSH', hint, '1')
    redis.pcall('PEXPIRE', hint, 60000)
  end
end
next_item = next_item + 3 * result_count
