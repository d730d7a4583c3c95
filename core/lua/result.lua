-- What became of a job whose result somebody waits for. Read-only.
-- Moves:   nothing.
-- Replies: {'live'} while it may still be done, {'failed', what came back}, {'done', the result}, {'not kept'} where
--          the server had no memory for it, or {'gone'}.
-- Cost:    O(log n).
local id = ARGV[first_item]
-- The job first: where a client of an earlier build pushed it, a result may be that of an earlier job of this id.
-- with `if false then`: who waits for a job hears at once that it is gone
if redis.call('HEXISTS', jobs, id) == 1 then
  -- without: who waits for a failed job waits for ever
  if redis.call('ZSCORE', failed, id) then return { 'failed', redis.call('HGET', returned, id) or '' } end
  return { 'live' }
end
local kept = redis.call('GET', result(1, result_count))
if kept == '' then return { 'not kept' } end
if kept then return { 'done', kept } end
return { 'gone' }
