//! What a new client is refused for (a password, a permission, a setting of the server) is an outage for one that has worked: its
//! calls and waits go on when it is over.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::dials;
use crate::support::meter::Meter;
use crate::support::{Server, eventually};
use duly::{Client, ErrorKind, LockOptions, NewJob, PullOptions, ReserveOptions, SubscribeOptions};
use futures_util::future::join_all;
use tokio::task::JoinHandle;

const LONG: Duration = Duration::from_secs(60);
/// So often each was refused before the change is undone: for longer than a wait takes before it looks.
const REFUSED: usize = 8;

/// What somebody changes at the server, and then undoes.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Change {
    /// Connections that only wait end, and new ones are refused.
    Password,
    PasswordAndConnections,
    Permissions,
    PermissionsAndConnections,
    Eviction,
}

const ALL: [Change; 5] = [
    Change::Password,
    Change::PasswordAndConnections,
    Change::Permissions,
    Change::PermissionsAndConnections,
    Change::Eviction,
];

impl Change {
    fn make(self, server: &Server) {
        let user = |rules: &[&str]| drop(server.redis_cli(&[&["ACL", "SETUSER", "u"], rules].concat()));
        match self {
            Self::Password | Self::PasswordAndConnections => user(&["resetpass", ">other"]),
            Self::Permissions | Self::PermissionsAndConnections => {
                user(&["-evalsha", "-eval", "-blpop", "-brpoplpush"]);
            }
            Self::Eviction => {
                server.redis_cli(&["CONFIG", "SET", "maxmemory", "1gb"]);
                server.redis_cli(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
            }
        }
        match self {
            Self::Password => {
                let list = server.redis_cli(&["CLIENT", "LIST"]);
                for waits in list.lines().filter(|line| line.contains(" flags=b ") && line.contains(" user=u ")) {
                    let id = waits.split_once("id=").unwrap().1.split(' ').next().unwrap();
                    server.redis_cli(&["CLIENT", "KILL", "ID", id]);
                }
            }
            Self::Permissions => {}
            _ => drop(server.redis_cli(&["CLIENT", "KILL", "USER", "u"])),
        }
    }

    /// Does it meet who has a connection?
    fn meets(self, who: Who) -> bool {
        self != Self::Password || who != Who::Producer
    }

    /// How often the server has refused something so far.
    fn refused(self, server: &Server) -> usize {
        if self == Self::Eviction {
            return dials::to(server.port());
        }
        let stats = server.redis_cli(&["INFO", "errorstats"]);
        let counts = stats.lines().filter_map(|line| {
            let (code, count) = line.trim().split_once(":count=")?;
            ["errorstat_WRONGPASS", "errorstat_NOPERM"].contains(&code).then(|| count.parse::<usize>().unwrap())
        });
        counts.sum()
    }
}

/// As before whichever change.
fn undo(server: &Server) {
    server.redis_cli(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
    server.redis_cli(&["ACL", "SETUSER", "u", "resetpass", ">s3cr3t", "+@all"]);
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Who {
    Producer,
    WaitsForAResult,
    WaitsForJobs,
    WaitsForALock,
    WaitsForMessages,
}

const WHO: [Who; 5] =
    [Who::Producer, Who::WaitsForAResult, Who::WaitsForJobs, Who::WaitsForALock, Who::WaitsForMessages];

impl Who {
    /// Something that works; then what the change meets.
    async fn begins(self, client: &Client, is_undone: Arc<AtomicBool>) -> JoinHandle<Result<(), duly::Error>> {
        let (client, queue) = (client.clone(), client.queue("orders").unwrap());
        let (short, wait) = (Duration::from_millis(20), ReserveOptions::new().wait(LONG));
        match self {
            Self::Producer => {
                queue.push(NewJob::new(&1).unwrap()).await.unwrap();
                tokio::spawn(async move {
                    while !is_undone.load(Ordering::SeqCst) {
                        queue.push(NewJob::new(&2).unwrap()).await?;
                    }
                    Ok(())
                })
            }
            Self::WaitsForAResult => {
                queue.wait_result("a", Some(short)).await.unwrap_err();
                tokio::spawn(async move { queue.wait_result("a", Some(LONG)).await.map(drop) })
            }
            Self::WaitsForJobs => {
                queue.reserve(&ReserveOptions::new().wait(short)).await.unwrap();
                tokio::spawn(async move { queue.reserve(&wait).await.map(|jobs| assert_eq!(jobs.len(), 1)) })
            }
            Self::WaitsForALock => {
                client.lock("l", &LockOptions::new().wait(short)).await.unwrap_err();
                tokio::spawn(async move { client.lock("l", &LockOptions::new().wait(LONG)).await.map(drop) })
            }
            Self::WaitsForMessages => {
                let topic = client.topic("t").unwrap();
                topic.subscribe("m", &SubscribeOptions::new()).await.unwrap();
                topic.pull("m", &PullOptions::new().wait(short)).await.unwrap();
                tokio::spawn(async move {
                    topic.pull("m", &PullOptions::new().wait(LONG)).await.map(|messages| assert_eq!(messages.len(), 1))
                })
            }
        }
    }
}

impl Who {
    /// The long wait alone.
    async fn waits(self, client: &Client) -> Result<(), duly::Error> {
        let (queue, topic) = (client.queue("orders")?, client.topic("t")?);
        match self {
            Self::WaitsForAResult => queue.wait_result("a", Some(LONG)).await.map(drop),
            Self::WaitsForJobs => queue.reserve(&ReserveOptions::new().wait(LONG)).await.map(drop),
            Self::WaitsForMessages => {
                topic.subscribe("m", &SubscribeOptions::new()).await?;
                topic.pull("m", &PullOptions::new().wait(LONG)).await.map(drop)
            }
            Self::Producer | Self::WaitsForALock => unreachable!("{self:?}"),
        }
    }
}

/// By somebody whom the change does not meet.
struct Others {
    client: Client,
    lock: duly::Lock,
}

impl Others {
    async fn prepare(server: &Server, who: Who) -> Self {
        let client = server.client();
        if who == Who::WaitsForAResult {
            client.queue("orders").unwrap().push(NewJob::new(&1).unwrap().id("a").result_ttl(LONG)).await.unwrap();
        }
        let lock = client.lock("l", &LockOptions::new()).await.unwrap();
        Self { client, lock }
    }

    /// What everybody waits for.
    async fn give(&self, who: Who) {
        let queue = self.client.queue("orders").unwrap();
        match who {
            Who::Producer => {}
            Who::WaitsForAResult => {
                queue.reserve(&ReserveOptions::new()).await.unwrap().remove(0).ack_with(&7).await.unwrap();
            }
            Who::WaitsForJobs => drop(queue.push(NewJob::new(&1).unwrap()).await.unwrap()),
            Who::WaitsForALock => assert!(self.lock.release().await.unwrap()),
            Who::WaitsForMessages => drop(self.client.topic("t").unwrap().publish(&1).await.unwrap()),
        }
    }
}

/// What went wrong.
async fn is_ridden_out(change: Change, who: Who) -> Option<String> {
    let server = Server::start();
    server.redis_cli(&["ACL", "SETUSER", "u", "on", ">s3cr3t", "~duly:*", "&*", "+@all"]);
    let others = Others::prepare(&server, who).await;
    let client = server.builder().username("u").password("s3cr3t").build().unwrap();
    let is_undone = Arc::new(AtomicBool::new(false));
    let calls = who.begins(&client, Arc::clone(&is_undone)).await;
    let mut meter = Meter::of(&server);
    meter.until("it waits", |meter| who == Who::Producer || meter.blocked() == 1).await;
    let before = change.refused(&server);
    change.make(&server);
    eventually("the server refuses it", || async {
        change.refused(&server) >= before + REFUSED || calls.is_finished()
    })
    .await;
    if calls.is_finished() {
        return Some(format!("{who:?}, {change:?}: {:?}", calls.await.unwrap()));
    }
    undo(&server);
    is_undone.store(true, Ordering::SeqCst);
    others.give(who).await;
    calls.await.unwrap().err().map(|error| format!("{who:?}, {change:?}, undone: {error:?}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_that_was_never_permitted_is_refused_at_once_though_others_have_worked() {
    const BY: [(Who, &str); 3] =
        [(Who::WaitsForAResult, "brpoplpush"), (Who::WaitsForJobs, "blpop"), (Who::WaitsForMessages, "xread")];
    let server = Server::start();
    let queue = server.queue("orders");
    queue.push(NewJob::new(&1).unwrap().id("a").result_ttl(LONG).delay(LONG)).await.unwrap();
    for (permitted, command) in BY {
        server.redis_cli(&["ACL", "SETUSER", "u", "reset", "on", ">s3cr3t", "~duly:*", "&*", "+@all"]);
        server.redis_cli(&["ACL", "SETUSER", "u", "-brpoplpush", "-blpop", "-xread", &format!("+{command}")]);
        let client = server.builder().username("u").password("s3cr3t").build().unwrap();
        permitted.begins(&client, Arc::default()).await.abort();
        for (refused, _) in BY.into_iter().filter(|(who, _)| *who != permitted) {
            let error = tokio::time::timeout(Duration::from_secs(20), refused.waits(&client)).await;
            let error = error.unwrap_or_else(|_| panic!("{permitted:?}: {refused:?} goes on")).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{permitted:?}, {refused:?}: {error}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_ends_a_new_client_is_an_outage_for_one_that_has_worked() {
    let each = ALL.into_iter().flat_map(|change| WHO.map(|who| (change, who)));
    let met = each.filter(|(change, who)| change.meets(*who));
    let wrong: Vec<_> =
        join_all(met.map(|(change, who)| is_ridden_out(change, who))).await.into_iter().flatten().collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_that_is_renewed_outlasts_what_ends_a_new_client() {
    join_all(ALL.map(|change| async move {
        let server = Server::start();
        server.redis_cli(&["ACL", "SETUSER", "u", "on", ">s3cr3t", "~duly:*", "&*", "+@all"]);
        let client = server.builder().username("u").password("s3cr3t").build().unwrap();
        let queue = client.queue("orders").unwrap();
        queue.push(NewJob::new(&1).unwrap().id("a")).await.unwrap();
        let lease = Duration::from_secs(3);
        let jobs = queue.reserve(&ReserveOptions::new().lease(lease)).await.unwrap();
        let _renewal = jobs[0].renew(lease).unwrap();
        let before = change.refused(&server);
        change.make(&server);
        eventually("the renewal is refused", || async { change.refused(&server) >= before + 2 }).await;
        let ends = || server.redis_cli(&["ZSCORE", "duly:{orders}:reserved", "a"]);
        let ended = ends();
        undo(&server);
        eventually(&format!("it is renewed behind {change:?}"), || async { ends() != ended }).await;
        jobs[0].ack().await.unwrap();
    }))
    .await;
}
