//! Twenty programs fire the same schedules, are cut off in the middle of their calls, and put them anew, while the server's clock jumps.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::support::{Server, eventually};
use duly::{CatchUp, Client, Millis, NewJob, Queue, ReserveOptions, Schedule};
use tokio::task::JoinSet;

const START: u64 = 1_790_000_000_000;
const PROGRAMS: u64 = 20;

/// Random numbers (xorshift64*), the same for the same seed.
struct Chance(u64);

/// The usual one, or one to repeat a run with.
fn seed() -> u64 {
    std::env::var("DULY_KILL_SEED").map_or(24_301, |seed| seed.parse().unwrap())
}

impl Chance {
    fn new(number: u64) -> Self {
        Self((seed() + number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % most
    }
}

fn job() -> NewJob {
    NewJob::new(&1).unwrap()
}

fn every(seconds: u64) -> Schedule {
    Schedule::every(Duration::from_secs(seconds), job()).unwrap().catch_up(CatchUp::All(100))
}

/// What a program of one version or the other says of its schedules.
fn schedules(version: u64) -> Vec<(String, Schedule)> {
    let often = every(7).jitter(Duration::from_secs(3));
    let pattern =
        Schedule::cron("*/2 * * * *", job()).unwrap().tz("Europe/Berlin").unwrap().catch_up(CatchUp::All(100));
    let changing = every(10 + 5 * version);
    [("often", often), ("pattern", pattern), ("changing", changing)]
        .map(|(name, schedule)| (name.to_owned(), schedule))
        .into()
}

struct World {
    server: Server,
    queue: Queue,
    clock: AtomicU64,
    is_over: AtomicBool,
}

impl World {
    async fn new() -> Arc<Self> {
        let server = Server::start();
        let queue = client(&server).queue("orders").unwrap();
        let world = Self { server, queue, clock: AtomicU64::new(START), is_over: AtomicBool::new(false) };
        world.move_clock(0).await;
        world.queue.schedules().sync("shop", &schedules(0)).await.unwrap();
        Arc::new(world)
    }

    async fn move_clock(&self, ms: i64) {
        let now = self.clock.load(Ordering::Relaxed).checked_add_signed(ms).unwrap();
        self.clock.store(now, Ordering::Relaxed);
        self.queue.set_clock(Millis::new(now)).await.unwrap();
    }

    /// Fires, and is cut off; and says anew what it has to say, as either version.
    async fn program(self: Arc<Self>, number: u64, puts: bool) {
        let mut chance = Chance::new(number);
        // On a busy machine nothing is done in three milliseconds: then it is cut off later and later, until something is.
        let mut longest = 3000;
        while !self.is_over.load(Ordering::Relaxed) {
            let queue = client(&self.server).queue("orders").unwrap();
            for _ in 0..=chance.below(20) {
                let cut_off = Duration::from_micros(chance.below(longest));
                let is_done = tokio::time::timeout(cut_off, queue.schedules().fire_due()).await.is_ok();
                longest = if is_done { 3000 } else { (longest + longest / 20).min(1_000_000) };
                if puts && chance.below(10) == 0 {
                    let list = schedules(chance.below(2));
                    let _ = tokio::time::timeout(4 * cut_off, queue.schedules().sync("shop", &list)).await;
                }
            }
        }
    }

    /// Takes all jobs out, so that a slot that fires again would push its job again.
    async fn taken(&self, ids: &mut Vec<String>) {
        loop {
            let jobs = self.queue.reserve(&ReserveOptions::new().max(100)).await.unwrap();
            if jobs.is_empty() {
                return;
            }
            assert!(self.queue.ack_all(&jobs).await.unwrap().into_iter().all(|acked| acked));
            ids.extend(jobs.iter().map(|job| job.id().to_owned()));
        }
    }
}

fn client(server: &Server) -> Client {
    server.builder().manual_clock().build().unwrap()
}

/// The ids of the jobs that were pushed, when the clock has made all of these steps.
async fn run(world: &Arc<World>, steps: impl Iterator<Item = i64>, puts: bool) -> Vec<String> {
    let mut programs = JoinSet::new();
    for number in 0..PROGRAMS {
        programs.spawn(Arc::clone(world).program(number, puts));
    }
    let mut ids = Vec::new();
    for step in steps {
        world.move_clock(step).await;
        let nothing_is_due = || async {
            let next = world.queue.schedules().list(0, 1).await.unwrap()[0].next;
            // Its jitter is three seconds at most.
            next.is_none_or(|next| next.get() > world.clock.load(Ordering::Relaxed).saturating_sub(3000))
        };
        eventually("it has fired", nothing_is_due).await;
        world.taken(&mut ids).await;
    }
    world.is_over.store(true, Ordering::Relaxed);
    programs.join_all().await;
    world.queue.schedules().fire_due().await.unwrap();
    world.taken(&mut ids).await;
    ids
}

/// The slots of the schedule of this name, in ms.
fn slots(ids: &[String], name: &str) -> BTreeSet<u64> {
    let of_name = ids.iter().filter_map(|id| id.strip_prefix(name)?.strip_prefix('@'));
    of_name.map(|slot| slot.parse::<jiff::Timestamp>().unwrap().as_millisecond().try_into().unwrap()).collect()
}

/// How many of each schedule; and that none is there twice.
fn counted(ids: &[String]) -> BTreeMap<&str, u64> {
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len(), "a slot fired twice, DULY_KILL_SEED={}", seed());
    let mut counts = BTreeMap::new();
    for id in ids {
        *counts.entry(id.split('@').next().unwrap()).or_default() += 1;
    }
    counts
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_slot_fires_once_whoever_is_cut_off() {
    let world = World::new().await;
    let mut chance = Chance::new(1000);
    let steps: Vec<i64> = (0..60).map(|_| i64::try_from(chance.below(60_000)).unwrap()).collect();
    let ids = run(&world, steps.into_iter(), false).await;
    let counts = counted(&ids);
    let often = world.queue.schedules().get("often").await.unwrap().unwrap();
    let first = START / 7000 + 1;
    assert_eq!(counts["often"], often.last.unwrap().get() / 7000 - first + 1, "each of them");
    assert_eq!((counts["often"], often.last.unwrap().get() % 7000), (often.fired, 0));
    assert!(often.last.unwrap().get() + 10_000 > world.clock.load(Ordering::Relaxed));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_slot_fires_twice_whatever_the_clock_does_and_whoever_puts_other_schedules() {
    let world = World::new().await;
    let mut chance = Chance::new(2000);
    let steps: Vec<i64> = (0..60)
        .map(|_| match chance.below(6) {
            0 => 3_600_000,
            1 => -i64::try_from(chance.below(1_800_000)).unwrap(),
            _ => i64::try_from(chance.below(60_000)).unwrap(),
        })
        .collect();
    let ids = run(&world, steps.iter().copied(), true).await;
    let counts = counted(&ids);
    for view in world.queue.schedules().list(0, 10).await.unwrap() {
        assert_eq!(counts[&*view.name], view.fired, "{}", view.name);
    }
    // Of the two that nobody changes, each slot fired up to the latest moment that the clock has shown.
    let (mut now, mut latest, mut leaps) = (START, START, Vec::new());
    for step in steps {
        now = now.checked_add_signed(step).unwrap();
        leaps.push((latest, now));
        latest = latest.max(now);
    }
    // What has become due in the last three seconds before the clock was set back may wait. And where it leaps, only the newest
    // hundred slots are caught up.
    for (name, every) in [("often", 7000), ("pattern", 120_000)] {
        let is_left_out = |slot: u64| leaps.iter().any(|&(from, to)| slot + 3000 > from && slot + 100 * every <= to);
        let due = (START / every + 1..=(latest - 3000) / every).map(|number| number * every);
        let due: BTreeSet<u64> = due.filter(|&slot| !is_left_out(slot)).collect();
        assert!(due.len() > 10, "{name}: {due:?}");
        let missing: Vec<u64> = due.difference(&slots(&ids, name)).copied().collect();
        assert_eq!(missing, [0; 0], "{name}, DULY_KILL_SEED={}", seed());
    }
}
