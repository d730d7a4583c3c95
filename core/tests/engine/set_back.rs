//! A server whose clock is set back while very many jobs are reserved.

use crate::support::Server;
use duly::NewJob;

/// More than two calls do. As many as 700 end in the same millisecond, so that a call stops between such.
const LEASES: usize = 25_000;

/// Leases of an hour later, as a clock leaves them that is set back by an hour; a copy of their ends is under `before`.
const FILL: &str = r"
local time = redis.call('TIME')
local later = time[1] * 1000 + 3600000
redis.call('HSET', 'duly:{orders}:meta', 'token', string.format('%.0f', later * 1000))
for at = 1, tonumber(ARGV[1]) do
  local ends = string.format('%.0f', later + 60000 + math.floor(at / 700))
  redis.call('ZADD', 'duly:{orders}:reserved', ends, at)
  redis.call('ZADD', 'before', ends, at)
  redis.call('HSET', 'duly:{orders}:leases', at, string.format('%.0f', later * 1000))
end
return {}
";

/// By how much they end earlier now: the least and the most.
const EARLIER: &str = r"
local least, most = math.huge, -math.huge
local ends = redis.call('ZRANGE', 'before', 0, -1, 'WITHSCORES')
for at = 1, #ends, 2 do
  local earlier = ends[at + 1] - redis.call('ZSCORE', 'duly:{orders}:reserved', ends[at])
  least, most = math.min(least, earlier), math.max(most, earlier)
end
return { string.format('%.0f', least), string.format('%.0f', most) }
";

#[tokio::test]
async fn all_of_very_many_leases_end_earlier_when_the_clock_is_set_back_in_calls_of_bounded_work() {
    let server = Server::start();
    let queue = server.queue("orders");
    queue.push(NewJob::new(&1).unwrap()).await.unwrap();
    queue.reclaim().await.unwrap();
    server.eval(FILL, &[&LEASES.to_string()]);
    server.redis_cli(&["CONFIG", "RESETSTAT"]);
    assert_eq!(queue.reclaim().await.unwrap(), 0);
    let calls = server.redis_cli(&["INFO", "commandstats"]);
    assert!(calls.contains("cmdstat_evalsha:calls=3,"), "{calls}");
    let earlier = server.eval(EARLIER, &[]);
    assert_eq!(earlier[0], earlier[1], "all by as much, and each once");
    let by: u64 = earlier[0].parse().unwrap();
    assert!((3_500_000..=3_601_000).contains(&by), "{by}");
    assert_eq!(server.redis_cli(&["HEXISTS", "duly:{orders}:meta", "set_back_rest"]).trim(), "0");
    assert_eq!(queue.reclaim().await.unwrap(), 0);
    assert_eq!(server.eval(EARLIER, &[]), earlier, "and no more");
}

#[tokio::test]
async fn a_caller_that_dies_between_leaves_the_other_leases_to_the_next_one() {
    let server = Server::start();
    let queue = server.queue("orders");
    queue.push(NewJob::new(&1).unwrap()).await.unwrap();
    queue.reclaim().await.unwrap();
    server.eval(FILL, &[&LEASES.to_string()]);
    // As a call leaves it that did the first ones.
    let half = r"
local meta, reserved = 'duly:{orders}:meta', 'duly:{orders}:reserved'
local ends = redis.call('ZRANGE', reserved, 0, 9999, 'WITHSCORES')
for at = 1, #ends, 2 do redis.call('ZADD', reserved, string.format('%.0f', ends[at + 1] - 3600000), ends[at]) end
redis.call('HSET', meta, 'set_back', '3600000000', 'set_back_token', redis.call('HGET', meta, 'token'))
redis.call('HSET', meta, 'set_back_rest', '3600000;' .. ends[#ends])
return {}
";
    server.eval(half, &[]);
    // Whoever comes next does the rest before it is given a job.
    assert_eq!(queue.reserve(&duly::ReserveOptions::new()).await.unwrap().len(), 1);
    let earlier = server.eval(EARLIER, &[]);
    assert_eq!(earlier, ["3600000", "3600000"]);
}
