-- Brings a queue of an older format to ours. What it says stays the same.
-- Moves:   nothing.
-- Replies: `ok`; or `format <n>`. Right when sent twice: the second time there is nothing to do.
-- Cost:    O(limits).
-- In format 1 `limits` was `<concurrency>;<jobs>;<us>` of the queue, and `names` had a line `<number>;<concurrency>;<name>` a name, or
-- `<number>;<concurrency>:<jobs>:<us>;<name>`, with 0 where there was no limit.
local format, of_queue, of_names, rate_at = unpack(redis.call('HMGET', meta, 'format', 'limits', 'names', 'rate_at'))
-- Another client was first, or the queue was deleted meanwhile: then any call may write its format anew.
-- without: of two clients that upgrade a queue one takes it for one that is too new
-- with `format == 'FORMAT'` for `not format or format == 'FORMAT'`: a queue that was just deleted is taken for one that is too new
if not format or format == 'FORMAT' then return 'ok' end
-- without: a queue of a newer format is spoilt
if format ~= '1' then return 'format ' .. format end
-- without: a full server's queue with limits can be neither drained nor reserved from
--- include: call/allow_growing

local lines = {}
local function add(number, most, jobs, us, name)
  most = most ~= '0' and most or ''
  local rate = jobs ~= '' and jobs ~= '0' and jobs .. ':' .. us or ''
  lines[#lines + 1] = number .. ';' .. most .. ';' .. rate .. ';' .. name
end
local most, jobs, us = string.match(of_queue or '', '^(%d+);(%d+);(%d+)$')
if most then add('0', most, jobs, us, '') end
for number, most_of, jobs_of, us_of, name in string.gmatch(of_names or '', '(%d+);(%d+):?(%d*):?(%d*);([^\n]*)') do
  add(number, most_of, jobs_of, us_of, name)
end
-- without: lost limits hide what they held back
if of_names == '?' then lines = { '?' } end
-- By one command: a server that dies must not keep limits in our form under the old format (`docs/servers.md`).
local fields = { 'format', 'FORMAT' }
local function set(field, value) fields[#fields + 1], fields[#fields + 2] = field, value end
if #lines > 0 then set('limits', table.concat(lines, '\n')) else redis.call('HDEL', meta, 'limits') end
if rate_at then set('rate_at:0', rate_at) end
redis.call('HSET', meta, unpack(fields))
redis.call('HDEL', meta, 'names', 'rate_at')
return 'ok'
