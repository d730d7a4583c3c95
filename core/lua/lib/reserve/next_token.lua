-- Larger than every token before it, also when the server's clock was set back; and, after a failover that forgot the
-- last tokens, still larger than those, because it follows the clock. It also says whether the jobs are fetched ahead.
-- Needs: `ahead`, `lease_ms`, `last_token`, what `call/clock` gives. Gives: `token`, `lease_end`, `behind_token`.
--- include: reserve/ahead
-- with `now + lease_ms` for `from + lease_ms`: a lease ends up to a millisecond early
local lease_end = string.format('%.0f', from + lease_ms)
-- What the clock says, where that is behind the token.
local token, behind_token = tonumber(last_token or 0), 0
-- with `if false then`: two leases have the same token
-- with `if true then`: a failover that forgot the last tokens grants them again
if token >= now_us then
  -- with `0` for `now`: a clock that was set back ends jobs before they expire
  token, behind_token = token + 1, now
else
  token = now_us
end
if ahead == 1 then
  -- without: innocent jobs pay for the worker that held them
  token = math.ceil(token / AHEAD) * AHEAD
-- with `elseif false then`: one in sixteen that kills who reserves by hand is not charged
elseif token % AHEAD == 0 then
  token = token + 1
end
token = string.format('%.0f', token)
