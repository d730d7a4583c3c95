-- Larger than every token before it, also when the server's clock was set back; and, after a failover that forgot the
-- last tokens, still larger than those, because it follows the clock. It also says whether the jobs are fetched ahead.
-- Needs: `ahead`, `lease_ms`, `last_token`, what `call/clock` gives. Gives: `token`, `lease_end`.
--- include: reserve/ahead
-- with `now + lease_ms` for `from + lease_ms`: a lease ends up to a millisecond early
local lease_end = string.format('%.0f', from + lease_ms)
-- with `now_us` for `math.max(now_us, tonumber(last_token or 0) + 1)`: two leases have the same token
-- with `tonumber(last_token or 0) + 1` for `math.max(now_us, tonumber(last_token or 0) + 1)`: a failover that forgot the last tokens grants them again
local token = math.max(now_us, tonumber(last_token or 0) + 1)
if ahead == 1 then
  -- without: innocent jobs pay for the worker that held them
  token = math.ceil(token / AHEAD) * AHEAD
-- with `elseif false then`: one in sixteen that kills who reserves by hand is not charged
elseif token % AHEAD == 0 then
  token = token + 1
end
token = string.format('%.0f', token)
