-- Was the job pushed with `result_ttl`, so that somebody may wait for its result? Its record then ends with
-- `"result_ttl":<seconds>}`; nothing before that is looked at. Data that ends like this only costs a wake-up.
-- Gives: `keeps_result`.
local function keeps_result(record) return string.find(record, '"result_ttl":', -32, true) ~= nil end
