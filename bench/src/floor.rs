//! The least that a queue with leases can ask of the server: the same moves without any guard, as plain commands and as
//! plain scripts.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use futures_util::future::try_join_all;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Cmd, Pipeline, Value};

use crate::cycle::{Way, count};
use crate::engine::data;
use crate::server::Failure;

const JOBS: &str = "floor:jobs";
const READY: &str = "floor:ready";
const RESERVED: &str = "floor:reserved";
const LEASE_END: u64 = 1_900_000_000_000;

/// A connection of the kind that the engine uses.
pub(crate) async fn connect(url: &str) -> Result<MultiplexedConnection, Failure> {
    // Without timers, of which the engine has its own.
    let config = AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
    Ok(redis::Client::open(url)?.get_multiplexed_async_connection_with_config(&config).await?)
}

/// Makes ids as long as the engine's.
#[derive(Default)]
struct Ids(AtomicU64);

impl Ids {
    fn next(&self) -> String {
        format!("{:016x}", self.0.fetch_add(1, Ordering::Relaxed))
    }
}

/// Plain commands: HSET and RPUSH; LPOP, then HMGET and ZADD; ZREM and HDEL.
pub(crate) struct Commands {
    connection: MultiplexedConnection,
    ids: Ids,
    record: String,
}

impl Commands {
    pub(crate) async fn connect(url: &str) -> Result<Self, Failure> {
        Ok(Self { connection: connect(url).await?, ids: Ids::default(), record: data() })
    }

    async fn both(&self, first: Cmd, second: Cmd) -> Result<(Value, Value), Failure> {
        let mut pipeline = Pipeline::with_capacity(2);
        pipeline.add_command(first).add_command(second);
        Ok(pipeline.query_async(&mut self.connection.clone()).await?)
    }
}

impl Way for Commands {
    type Held = Vec<String>;

    async fn push(&self, jobs: usize) -> Result<(), Failure> {
        let (mut store, mut append) = (redis::cmd("HSET"), redis::cmd("RPUSH"));
        store.arg(JOBS);
        append.arg(READY);
        for _ in 0..jobs {
            let id = self.ids.next();
            store.arg(&id).arg(&self.record);
            append.arg(&id);
        }
        self.both(store, append).await.map(|_| ())
    }

    async fn until_due(&self) -> Result<(), Failure> {
        Ok(())
    }

    async fn reserve(&self, jobs: usize) -> Result<Vec<String>, Failure> {
        let mut take = redis::cmd("LPOP");
        let held: Vec<String> = take.arg(READY).arg(jobs).query_async(&mut self.connection.clone()).await?;
        if held.len() != jobs {
            return Err("the floor's queue ran dry".into());
        }
        let (mut read, mut lease) = (redis::cmd("HMGET"), redis::cmd("ZADD"));
        read.arg(JOBS).arg(&held);
        lease.arg(RESERVED);
        for id in &held {
            lease.arg(LEASE_END).arg(id);
        }
        self.both(read, lease).await?;
        Ok(held)
    }

    async fn ack(&self, held: Vec<String>) -> Result<(), Failure> {
        let (mut end, mut remove) = (redis::cmd("ZREM"), redis::cmd("HDEL"));
        end.arg(RESERVED).arg(&held);
        remove.arg(JOBS).arg(&held);
        self.both(end, remove).await.map(|_| ())
    }
}

/// The same moves, one script each.
pub(crate) struct Scripts {
    connection: MultiplexedConnection,
    ids: Ids,
    record: String,
    push: redis::Script,
    reserve: redis::Script,
    ack: redis::Script,
}

impl Scripts {
    pub(crate) async fn connect(url: &str) -> Result<Self, Failure> {
        let push = "
            local ids = {}
            for i = 1, #ARGV, 2 do ids[#ids + 1] = ARGV[i] end
            redis.call('HSET', KEYS[1], unpack(ARGV))
            redis.call('RPUSH', KEYS[2], unpack(ids))";
        let reserve = "
            local ids = redis.call('LPOP', KEYS[2], ARGV[1])
            local ends = {}
            for i = 1, #ids do ends[2 * i - 1], ends[2 * i] = ARGV[2], ids[i] end
            redis.call('ZADD', KEYS[3], unpack(ends))
            return {ids, redis.call('HMGET', KEYS[1], unpack(ids))}";
        let ack = "
            redis.call('ZREM', KEYS[3], unpack(ARGV))
            redis.call('HDEL', KEYS[1], unpack(ARGV))";
        Ok(Self {
            connection: connect(url).await?,
            ids: Ids::default(),
            record: data(),
            push: redis::Script::new(push),
            reserve: redis::Script::new(reserve),
            ack: redis::Script::new(ack),
        })
    }

    async fn run<T: redis::FromRedisValue>(&self, call: &mut redis::ScriptInvocation<'_>) -> Result<T, Failure> {
        call.key(JOBS).key(READY).key(RESERVED);
        Ok(call.invoke_async(&mut self.connection.clone()).await?)
    }
}

/// The two scripts of a worker in one, without guards: acks a batch and reserves the next. Gives jobs a second of a queue of
/// so many jobs, with a few calls in flight.
pub(crate) async fn combined(url: &str, jobs: usize) -> Result<f64, Failure> {
    const BATCH: usize = 100;
    const IN_FLIGHT: usize = 4;
    let scripts = Scripts::connect(url).await?;
    for _ in 0..jobs / 1000 {
        scripts.push(1000).await?;
    }
    let script = redis::Script::new(
        "
        if #ARGV > 2 then
          redis.call('ZREM', KEYS[3], unpack(ARGV, 3))
          redis.call('HDEL', KEYS[1], unpack(ARGV, 3))
        end
        local ids = redis.call('LPOP', KEYS[2], ARGV[1])
        if not ids then return {{}, {}} end
        local ends = {}
        for i = 1, #ids do ends[2 * i - 1], ends[2 * i] = ARGV[2], ids[i] end
        redis.call('ZADD', KEYS[3], unpack(ends))
        return {ids, redis.call('HMGET', KEYS[1], unpack(ids))}",
    );
    let started = Instant::now();
    try_join_all((0..IN_FLIGHT).map(|_| async {
        let mut held: Vec<String> = Vec::new();
        loop {
            let mut call = script.prepare_invoke();
            call.arg(BATCH).arg(LEASE_END).arg(&held);
            let (next, _): (Vec<String>, Value) = scripts.run(&mut call).await?;
            if next.is_empty() {
                return Ok::<_, Failure>(());
            }
            held = next;
        }
    }))
    .await?;
    Ok(count(jobs) / started.elapsed().as_secs_f64())
}

impl Way for Scripts {
    type Held = Vec<String>;

    async fn push(&self, jobs: usize) -> Result<(), Failure> {
        let mut call = self.push.prepare_invoke();
        for _ in 0..jobs {
            call.arg(self.ids.next()).arg(&self.record);
        }
        self.run(&mut call).await
    }

    async fn until_due(&self) -> Result<(), Failure> {
        Ok(())
    }

    async fn reserve(&self, jobs: usize) -> Result<Vec<String>, Failure> {
        let mut call = self.reserve.prepare_invoke();
        let (held, _): (Vec<String>, Value) = self.run(call.arg(jobs).arg(LEASE_END)).await?;
        if held.len() == jobs { Ok(held) } else { Err("the floor's queue ran dry".into()) }
    }

    async fn ack(&self, held: Vec<String>) -> Result<(), Failure> {
        self.run(self.ack.prepare_invoke().arg(&held)).await
    }
}
