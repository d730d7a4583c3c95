-- What is done with jobs that come back from a worker: because it says so, or because its lease is over.
-- Needs: what `call/meta` and `call/clock` give, except in the plain text what `history/events` gives. Gives: `routing`, `read_note`, `write_note`, `note_return`, `enter_failed`,
-- `free_key`, `trim_failed`, `note_unheard`, `to_head`.
--- include: job/routing, back/note, failed/set, failed/note_unheard, back/to_head
-- The reads that fail on a foreign type come before the first write, so that no job is lost between two sets.
-- without: a foreign type under `jobs` loses the jobs that came back
redis.call('HLEN', jobs)
-- without: a foreign type under `failed` loses the jobs that failed
redis.call('ZCARD', failed)
-- without: a foreign type under `returned` loses the jobs that came back
redis.call('HLEN', returned)
-- without: a foreign type under `keys` loses the jobs that failed
redis.call('HLEN', keys)
-- without `redis.call('LLEN', ready(used))`: a foreign type under a list loses the jobs that came back
for used in string.gmatch(passed_levels, '%d') do redis.call('LLEN', ready(used)) end
--- if limited
-- without 4 lines: a foreign type under `places` loses the jobs that came back
if limits then
  redis.call('ZCARD', parked)
  redis.call('ZCARD', places)
end
--- end
