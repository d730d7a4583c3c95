//! A script of a bridge that was cut anywhere: the bridge that goes on loses no job. Some come twice, where a half of a call that was cut
//! cannot be told from a whole one: `docs/servers.md` says where.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::support::Server;
use crate::support::torn::{Again, Written, shown, writing};
use duly::{AuditOptions, Bridge, Client, NewJob, OldQueue, Queue, ReserveOptions, State};

const READY: &str = "redis:queue:ready";
const DELAYED: &str = "redis:queue:delay";
const FAILED: &str = "redis:queue:failed";
const HOUR: Duration = Duration::from_secs(3600);

fn thinkphp() -> OldQueue {
    OldQueue::thinkphp("orders").unwrap()
}

fn package(number: u64) -> String {
    format!(r#"{{"id":"{number}","time":1690000000,"delay":0,"attempts":0,"data":{number}}}"#)
}

pub(crate) fn fill_old(server: &Server) {
    for number in 0..3 {
        server.redis_cli(&["LPUSH", READY, &package(number)]);
    }
    server.redis_cli(&["ZADD", DELAYED, "4102444800", &package(3), "4102444801", &package(4)]);
    server.redis_cli(&["LPUSH", FAILED, &package(5)]);
    // Which have no room in `failed`, beside jobs that do not need it.
    server.redis_cli(&["LPUSH", READY, "no package", "no package, either"]);
}

pub(crate) async fn over(client: &Client) {
    let queue = client.queue("orders").unwrap();
    queue.keep_failed(1, HOUR).await.unwrap();
    _ = Bridge::new(client, client, thinkphp()).drain(|_| {}).await;
    queue.keep_failed(10_000, HOUR).await.unwrap();
    let report = Bridge::new(client, client, thinkphp()).drain(|_| {}).await.unwrap();
    assert!(report.is_complete(), "{report}");
}

fn job(number: u64) -> NewJob {
    NewJob::new(&number).unwrap().priority(u8::try_from(number % 3).unwrap() + 3)
}

/// Jobs 0 to 2 are ready, 3 and 4 delayed, and 5 has failed.
pub(crate) async fn fill(queue: &Queue, state: State) {
    match state {
        State::Ready => {
            queue.push_many((0..3).map(|number| job(number).key(number.to_string())), |_| {}).await.unwrap();
        }
        State::Delayed => {
            queue.push_many((3..5).map(|number| job(number).delay(HOUR)), |_| {}).await.unwrap();
        }
        _ => {
            queue.push(job(5).key("five").max_retries(0).priority(0)).await.unwrap();
            queue.reserve(&ReserveOptions::new()).await.unwrap().remove(0).fail("no bank").await.unwrap();
        }
    }
}

pub(crate) async fn back(client: &Client) {
    Bridge::new(client, client, thinkphp()).back().unwrap().drain(|_| {}).await.unwrap();
}

/// A batch stays on its way, and comes back.
pub(crate) async fn there_and_back(server: &Server, client: &Client) {
    let bridge = || Bridge::new(client, client, thinkphp()).back().unwrap();
    for key in [DELAYED, READY, FAILED] {
        server.redis_cli(&["SET", key, "foreign"]);
    }
    bridge().drain(|_| {}).await.unwrap_err();
    for key in [DELAYED, READY, FAILED] {
        server.redis_cli(&["DEL", key]);
    }
    assert!(bridge().give_back().await.unwrap().given > 0);
}

/// How often each number is there: in duly, in whatever state, and in the keys of the other queue.
async fn numbers(server: &Server, queue: &Queue) -> BTreeMap<u64, usize> {
    let mut all = BTreeMap::new();
    for state in [State::Ready, State::Delayed, State::Failed] {
        for job in queue.peek(state, 0, 100).await.unwrap() {
            if let Ok(number) = job.envelope.data.as_str().parse::<u64>() {
                *all.entry(number).or_default() += 1;
            }
        }
    }
    let mut packages = server.redis_cli(&["--raw", "LRANGE", READY, "0", "-1"]);
    packages += &server.redis_cli(&["--raw", "ZRANGE", DELAYED, "0", "-1"]);
    packages += &server.redis_cli(&["--raw", "LRANGE", FAILED, "0", "-1"]);
    for package in packages.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok()) {
        *all.entry(package["data"].as_u64().unwrap()).or_default() += 1;
    }
    all
}

/// Nobody holds the locks of the bridge that died.
fn end_locks(server: &Server) {
    server.eval("for _, key in ipairs(redis.call('KEYS', '*:lock')) do redis.call('DEL', key) end return {}", &[]);
}

/// What went on behind each cut, and where it came twice: the command of the cut.
async fn check(
    written: &Written,
    cuts: Vec<usize>,
    numbers_of: std::ops::Range<u64>,
    go_on: impl AsyncFn(&Server, &Client),
) -> Vec<String> {
    let mut again = Again::start();
    let mut twice = Vec::new();
    for cut in cuts {
        again.replay(written, cut);
        end_locks(&again.server);
        let client = again.server.client();
        let queue = client.queue("orders").unwrap();
        go_on(&again.server, &client).await;
        queue.audit(AuditOptions::new().repair(true)).await.unwrap();
        let left = queue.audit(AuditOptions::new()).await.unwrap();
        let behind = format!("behind {:?}", shown(&written.0[cut]));
        assert!(left.is_clean(), "{left:?}, {behind}");
        let found = numbers(&again.server, &queue).await;
        assert_eq!(found.keys().copied().collect::<Vec<_>>(), numbers_of.clone().collect::<Vec<_>>(), "{behind}");
        assert!(found.values().all(|&count| count <= 2), "{found:?}, {behind}");
        if found.values().any(|&count| count > 1) {
            let command = shown(&written.0[cut]);
            twice.push(command[..command.len().min(3)].join(" "));
        }
    }
    twice
}

#[tokio::test]
async fn a_bridge_over_loses_nothing_behind_a_script_that_was_cut_anywhere() {
    let server = writing();
    fill_old(&server);
    let first = Written::by(&server).0.len();
    over(&server.client()).await;
    let written = Written::by(&server);
    let cuts = written.cuts(first);
    assert!(cuts.len() > 20, "{}", cuts.len());
    let twice = check(&written, cuts, 0..6, async |_, client| {
        let queue = client.queue("orders").unwrap();
        queue.keep_failed(10_000, HOUR).await.unwrap();
        Bridge::new(client, client, thinkphp()).drain(|_| {}).await.unwrap();
    })
    .await;
    // The batch, before it has left the other queue's key; and a part of it in duly that is not known to be in.
    let is_named = |command: &String| {
        (command.starts_with("RPUSH") && command.contains(":in_flight"))
            || ["HSET duly:{orders}:jobs", "HSET {redis:queue:"].iter().any(|known| command.starts_with(known))
    };
    assert!(twice.iter().all(is_named), "{twice:?}");
}

const STATES: [(State, std::ops::Range<u64>); 3] =
    [(State::Ready, 0..3), (State::Delayed, 3..5), (State::Failed, 5..6)];

#[tokio::test]
async fn a_bridge_back_loses_nothing_behind_a_script_that_was_cut_anywhere() {
    let server = writing();
    let client = server.client();
    for (state, _) in STATES {
        fill(&client.queue("orders").unwrap(), state).await;
    }
    let first = Written::by(&server).0.len();
    back(&client).await;
    let written = Written::by(&server);
    let cuts = written.cuts(first);
    assert!(cuts.len() > 20, "{}", cuts.len());
    let twice = check(&written, cuts, 0..6, async |_, client| back(client).await).await;
    // The batch is in the other queue, which does not know it yet.
    let is_named = |command: &String| command.contains(" redis:queue:");
    assert!(twice.iter().all(is_named), "{twice:?}");
}

#[tokio::test]
async fn what_is_given_back_comes_once_wherever_a_script_was_cut() {
    for (state, numbers_of) in STATES {
        let server = writing();
        let client = server.client();
        fill(&client.queue("orders").unwrap(), state).await;
        let first = Written::by(&server).0.len();
        there_and_back(&server, &client).await;
        let written = Written::by(&server);
        let cuts = written.cuts(first);
        assert!(cuts.len() > 10, "{}", cuts.len());
        let twice = check(&written, cuts, numbers_of, async |server, client| {
            for key in [DELAYED, READY, FAILED] {
                server.redis_cli(&["DEL", key]);
            }
            Bridge::new(client, client, thinkphp()).back().unwrap().give_back().await.unwrap();
        })
        .await;
        assert!(twice.is_empty(), "{state:?}: {twice:?}");
    }
}
