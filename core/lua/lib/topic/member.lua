-- A member of a topic, and its subscription.
-- Needs: `topic`, `floors`, `member`, `lost_by`. Gives: `subscription`, `floor`: the number of the first message that it has not
-- read. Ends the script for who is no member, and for a member whose subscription was cut off.
local subscription = redis.call('HGET', topic, 'member:' .. member)
if not subscription then return 'stranger' end
local floor = tonumber(redis.call('ZSCORE', floors, subscription) or nil)
if not floor then
  local cut_off = redis.call('HGET', topic, 'cut:' .. subscription)
  return cut_off and 'cut ' .. lost_by(cut_off) .. ' ' .. subscription or 'stranger'
end
