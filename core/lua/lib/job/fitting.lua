-- How many of these ids, from the first one on, have records that make up `most` bytes together at the most, but one at least; and
-- how many bytes are left. Gives: `count_fitting`.
local function count_fitting(ids, most)
  for k = 1, #ids do
    local left = most - redis.call('HSTRLEN', jobs, ids[k])
    -- without: large records are read by the hundred
    if left < 0 and k > 1 then return k - 1, most end
    most = left
  end
  return #ids, most
end
