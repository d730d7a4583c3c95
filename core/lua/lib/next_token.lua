-- Larger than every token before it, also when the server's clock was set back; and, after a failover that forgot the
-- last tokens, still larger than those, because it follows the clock. It also says whether the jobs are fetched ahead.
-- Needs: `ahead`, `lease_ms`. Gives: `token`, `lease_end`.
--- include: ahead
local lease_end = string.format('%.0f', from + lease_ms)
local token = math.max(now_us, tonumber(last_token or 0) + 1)
if ahead == 1 then
  token = math.ceil(token / AHEAD) * AHEAD
elseif token % AHEAD == 0 then
  token = token + 1
end
token = string.format('%.0f', token)
