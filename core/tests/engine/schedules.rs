//! Schedules: each slot fires once, whoever fires it, whatever is late or lost.

use std::time::Duration;

use crate::support::Server;
use crate::support::meter::Meter;
use duly::{
    CatchUp, Client, ErrorKind, FireOutcome, Millis, NewJob, Overlap, PutSchedule, Queue, ReserveOptions, Schedule,
    State,
};

const START: u64 = 1_790_000_040; // a whole minute
const MINUTE: Duration = Duration::from_secs(60);

fn job() -> NewJob {
    NewJob::new(&1).unwrap().name("report")
}

fn every(seconds: u64) -> Schedule {
    Schedule::every(Duration::from_secs(seconds), job()).unwrap()
}

fn client(server: &Server) -> Client {
    server.builder().manual_clock().build().unwrap()
}

async fn queue(server: &Server) -> Queue {
    let queue = client(server).queue("a").unwrap();
    queue.set_clock(Millis::from_secs(START)).await.unwrap();
    queue
}

async fn set(queue: &Queue, seconds: u64) {
    queue.set_clock(Millis::from_secs(START + seconds)).await.unwrap();
}

async fn ids(queue: &Queue) -> Vec<String> {
    let jobs = queue.reserve(&ReserveOptions::new().max(100)).await.unwrap();
    jobs.into_iter().map(|job| job.id().to_owned()).collect()
}

#[tokio::test]
async fn a_schedule_fires_each_slot_once_and_never_at_once() {
    let server = Server::start();
    let queue = queue(&server).await;
    let schedules = queue.schedules();
    assert_eq!(schedules.put("report", &every(60)).await.unwrap(), PutSchedule::Created);
    assert_eq!(schedules.fire_due().await.unwrap(), 0);
    set(&queue, 59).await;
    assert_eq!(schedules.fire_due().await.unwrap(), 0);
    set(&queue, 60).await;
    let others = client(&server).queue("a").unwrap().schedules();
    let fired = tokio::join!(schedules.fire_due(), others.fire_due());
    assert_eq!(fired.0.unwrap() + fired.1.unwrap(), 1);
    assert_eq!(ids(&queue).await, ["report@2026-09-21T14:15:00Z"]);
    let view = schedules.get("report").await.unwrap().unwrap();
    assert_eq!((view.fired, view.next), (1, Some(Millis::from_secs(START + 120))));
    assert_eq!(view.fires.len(), 1);
    assert_eq!(view.fires[0].outcome, FireOutcome::Pushed);
    assert_eq!(view.fires[0].job_id, "report@2026-09-21T14:15:00Z");
}

#[tokio::test]
async fn a_schedule_that_is_removed_fires_no_more() {
    let server = Server::start();
    let queue = queue(&server).await;
    let schedules = queue.schedules();
    schedules.put("report", &every(60)).await.unwrap();
    assert!(schedules.remove("report").await.unwrap());
    assert!(!schedules.remove("report").await.unwrap());
    set(&queue, 600).await;
    assert_eq!(schedules.fire_due().await.unwrap(), 0);
    assert!(schedules.get("report").await.unwrap().is_none());
    assert_eq!(server.dump("call:").iter().filter(|line| line.contains("{a}:schedule")).count(), 0);
}

#[tokio::test]
async fn the_same_schedule_keeps_its_slot_and_another_one_never_fires_what_has_fired() {
    let server = Server::start();
    let queue = queue(&server).await;
    let schedules = queue.schedules();
    schedules.put("report", &every(60)).await.unwrap();
    set(&queue, 90).await;
    assert_eq!(schedules.put("report", &every(60)).await.unwrap(), PutSchedule::Unchanged);
    assert_eq!(schedules.fire_due().await.unwrap(), 1);
    // The clock is set back, and the schedule is another one: its slot of then has fired.
    set(&queue, 10).await;
    assert_eq!(schedules.put("report", &every(30)).await.unwrap(), PutSchedule::Changed);
    assert_eq!(schedules.next("report", 2).await.unwrap()[0], Millis::from_secs(START + 90));
}

#[tokio::test]
async fn overlap_skips_or_replaces_the_job_that_is_still_there() {
    let server = Server::start();
    let queue = queue(&server).await;
    let schedules = queue.schedules();
    schedules.put("skips", &every(60).overlap(Overlap::Skip)).await.unwrap();
    schedules.put("replaces", &every(60).overlap(Overlap::Replace)).await.unwrap();
    set(&queue, 60).await;
    assert_eq!(schedules.fire_due().await.unwrap(), 2);
    set(&queue, 120).await;
    assert_eq!(schedules.fire_due().await.unwrap(), 1);
    let mut left = ids(&queue).await;
    left.sort();
    assert_eq!(left, ["replaces@2026-09-21T14:16:00Z", "skips@2026-09-21T14:15:00Z"]);
    let outcome = |view: duly::ScheduleView| view.fires.last().unwrap().outcome;
    assert_eq!(outcome(schedules.get("skips").await.unwrap().unwrap()), FireOutcome::Skipped);
    assert_eq!(outcome(schedules.get("replaces").await.unwrap().unwrap()), FireOutcome::Replaced);
    assert_eq!(schedules.run_now("skips").await.unwrap_err().kind(), ErrorKind::Duplicate);
    assert!(schedules.run_now("replaces").await.unwrap().starts_with("replaces@"));
}

#[tokio::test]
async fn a_paused_schedule_fires_nothing_and_goes_on_in_the_future() {
    let server = Server::start();
    let queue = queue(&server).await;
    let schedules = queue.schedules();
    schedules.put("report", &every(60)).await.unwrap();
    assert!(schedules.pause("report").await.unwrap() && schedules.pause("report").await.unwrap());
    assert!(!schedules.pause("nothing").await.unwrap());
    set(&queue, 200).await;
    assert_eq!(schedules.fire_due().await.unwrap(), 0);
    assert!(schedules.get("report").await.unwrap().unwrap().is_paused);
    assert_eq!(schedules.put("report", &every(30)).await.unwrap(), PutSchedule::Changed);
    assert!(schedules.next("report", 5).await.unwrap().is_empty());
    assert!(schedules.resume("report").await.unwrap());
    assert_eq!(schedules.fire_due().await.unwrap(), 0);
    assert_eq!(schedules.next("report", 1).await.unwrap(), [Millis::from_secs(START + 210)]);
}

#[tokio::test]
async fn missed_slots_are_caught_up_as_the_schedule_says() {
    let server = Server::start();
    let queue = queue(&server).await;
    let schedules = queue.schedules();
    schedules.put("latest", &every(60)).await.unwrap();
    schedules.put("skip", &every(60).catch_up(CatchUp::Skip).grace(Duration::from_secs(5))).await.unwrap();
    schedules.put("all", &every(60).catch_up(CatchUp::All(3))).await.unwrap();
    schedules.put("once", &every(60).count(1)).await.unwrap();
    set(&queue, 610).await;
    assert_eq!(schedules.fire_due().await.unwrap(), 1 + 3 + 1);
    let once = schedules.get("once").await.unwrap().unwrap();
    assert_eq!((once.fired, once.next), (1, None));
    let listed = schedules.list(0, 10).await.unwrap();
    assert_eq!(listed.last().unwrap().name, "once", "what is over comes last");
    assert_eq!((listed.len(), schedules.list(3, 10).await.unwrap().len()), (4, 1));
}

#[tokio::test]
async fn sync_makes_a_list_the_truth_and_touches_nothing_of_others() {
    let server = Server::start();
    let queue = queue(&server).await;
    let schedules = queue.schedules();
    schedules.put("by_hand", &every(60)).await.unwrap();
    let list = |names: &[(&str, u64)]| -> Vec<(String, Schedule)> {
        names.iter().map(|(name, seconds)| ((*name).to_owned(), every(*seconds))).collect()
    };
    let first = schedules.sync("shop", &list(&[("a", 60), ("b", 60)])).await.unwrap();
    assert_eq!(first.created, ["a", "b"]);
    schedules.sync("other", &list(&[("c", 60)])).await.unwrap();
    set(&queue, 45).await;
    let second = schedules.sync("shop", &list(&[("a", 60), ("d", 60)])).await.unwrap();
    assert_eq!(
        (second.created, second.unchanged, second.removed),
        (vec!["d".into()], vec!["a".into()], vec!["b".into()])
    );
    let third = schedules.sync("shop", &list(&[("a", 50), ("d", 60)])).await.unwrap();
    assert_eq!((third.changed, third.unchanged), (vec!["a".to_owned()], vec!["d".to_owned()]));
    for taken in ["c", "by_hand"] {
        let refused = schedules.sync("shop", &list(&[(taken, 60)])).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    }
    assert_eq!(schedules.list(0, 100).await.unwrap().len(), 4);
    assert_eq!(schedules.get("a").await.unwrap().unwrap().owner.as_deref(), Some("shop"));
    schedules.sync("shop", &[]).await.unwrap();
    assert_eq!(schedules.list(0, 100).await.unwrap().len(), 2);
}

#[tokio::test]
async fn more_schedules_than_one_call_takes_fire_all_at_once_and_once() {
    let server = Server::start();
    let queue = queue(&server).await;
    let schedules = queue.schedules();
    let list: Vec<_> = (0..250).map(|number| (format!("s{number}"), every(60).catch_up(CatchUp::All(20)))).collect();
    assert_eq!(schedules.sync("shop", &list).await.unwrap().created.len(), 250);
    set(&queue, 1200).await;
    let others = client(&server).queue("a").unwrap().schedules();
    let fired = tokio::join!(schedules.fire_due(), others.fire_due());
    assert_eq!(fired.0.unwrap() + fired.1.unwrap(), 250 * 20);
    assert_eq!(queue.counts().await.unwrap().ready, 250 * 20);
}

#[tokio::test]
async fn in_a_split_queue_a_schedule_is_in_the_part_of_its_name() {
    let server = Server::start();
    let queue = client(&server).partitioned_queue("a", 4).unwrap();
    queue.set_clock(Millis::from_secs(START)).await.unwrap();
    let schedules = queue.schedules();
    for number in 0..8 {
        schedules.put(&format!("s{number}"), &every(60).overlap(Overlap::Skip)).await.unwrap();
    }
    assert_eq!(schedules.list(0, 100).await.unwrap().len(), 8);
    assert_eq!(schedules.list(6, 100).await.unwrap().len(), 2);
    queue.set_clock(Millis::from_secs(START + 60)).await.unwrap();
    assert_eq!(schedules.fire_due().await.unwrap(), 8);
    // Found by id, and by the key that their overlap gives them.
    assert!(queue.find("s3@2026-09-21T14:15:00Z").await.unwrap().is_some());
    assert!(queue.cancel_key("s3").await.unwrap().is_some());
    let keyed = Schedule::every(MINUTE, job().key("k")).unwrap().overlap(Overlap::Skip);
    assert_eq!(schedules.put("keyed", &keyed).await.unwrap_err().kind(), ErrorKind::InvalidArgument);
}

#[tokio::test]
async fn what_makes_no_sense_is_refused() {
    let server = Server::start();
    let queue = queue(&server).await;
    let schedules = queue.schedules();
    let refused = [
        every(60).count(0),
        every(60).jitter(Duration::from_secs(25 * 3600)),
        every(60).until(Millis::from_secs(START)),
        every(60).start(Millis::from_secs(9)).until(Millis::from_secs(8)),
        every(60).catch_up(CatchUp::All(101)),
        Schedule::every(MINUTE, job().key("k")).unwrap(),
    ];
    for schedule in refused {
        assert_eq!(schedules.put("a", &schedule).await.unwrap_err().kind(), ErrorKind::InvalidArgument, "{schedule:?}");
    }
    for job in [job().id("x"), job().delay(MINUTE)] {
        assert_eq!(Schedule::every(MINUTE, job).unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
    assert!(every(60).tz("UTC").is_err() && Schedule::cron("@daily", job()).unwrap().anchor(Millis::ZERO).is_err());
    assert_eq!(schedules.put("", &every(60)).await.unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(schedules.run_now("a").await.unwrap_err().kind(), ErrorKind::NotFound);
}

/// A newer version may have written it.
#[tokio::test]
async fn what_cannot_be_read_is_left_alone_and_holds_up_nothing() {
    let server = Server::start();
    let queue = queue(&server).await;
    let schedules = queue.schedules();
    schedules.put("a", &every(60)).await.unwrap();
    schedules.put("b", &every(60)).await.unwrap();
    let newer = r#"{"every_ms":60000,"phase_of_the_moon":1,"job":{"data":1}}"#;
    server.redis_cli(&["HSET", "duly:{a}:schedules", "a", newer]);
    set(&queue, 60).await;
    assert_eq!(schedules.fire_due().await.unwrap(), 1);
    assert_eq!(schedules.get("a").await.unwrap().unwrap().schedule.unwrap_err().kind(), ErrorKind::Corrupt);
    assert!(schedules.remove("a").await.unwrap());
    assert_eq!(queue.peek(State::Ready, 0, 10).await.unwrap().len(), 1);
}

/// A look took the first hundred that were due, and went no further when it could read none.
#[tokio::test]
async fn a_hundred_that_cannot_be_read_hold_up_no_other_one() {
    let server = Server::start();
    let queue = queue(&server).await;
    let schedules = queue.schedules();
    let list: Vec<_> = (0..230).map(|number| (format!("a{number:03}"), every(60))).collect();
    schedules.sync("shop", &list).await.unwrap();
    let newer = r#"{"every_ms":60000,"phase_of_the_moon":1,"job":{"data":1}}"#;
    for (name, _) in &list {
        server.redis_cli(&["HSET", "duly:{a}:schedules", name, newer]);
    }
    schedules.put("z", &every(60)).await.unwrap();
    for minute in 1..=2 {
        set(&queue, 60 * minute).await;
        assert_eq!(schedules.fire_due().await.unwrap(), 1);
    }
    assert_eq!(ids(&queue).await, ["z@2026-09-21T14:15:00Z", "z@2026-09-21T14:16:00Z"]);
}

/// The slot was past, and its moment was not yet there: the one behind it took its place.
#[tokio::test]
async fn a_change_drops_no_slot_that_waits_for_its_jitter() {
    let server = Server::start();
    let queue = queue(&server).await;
    let schedules = queue.schedules();
    let span = Duration::from_secs(3000);
    schedules.put("report", &every(3600).jitter(span)).await.unwrap();
    let slot = schedules.next("report", 1).await.unwrap()[0];
    let at = slot.get() / 1000 - START;
    set(&queue, at + 1).await;
    assert_eq!(schedules.fire_due().await.unwrap(), 0, "it waits");
    let changed = every(3600).jitter(span).overlap(Overlap::Skip);
    assert_eq!(schedules.put("report", &changed).await.unwrap(), PutSchedule::Changed);
    assert_eq!(schedules.next("report", 1).await.unwrap()[0], slot);
    set(&queue, at + 3001).await;
    assert_eq!(schedules.fire_due().await.unwrap(), 1);
    assert!(ids(&queue).await[0].starts_with("report@"));
    // Another recurrence begins in the future.
    assert_eq!(schedules.put("report", &every(1800)).await.unwrap(), PutSchedule::Changed);
    assert!(schedules.next("report", 1).await.unwrap()[0] > Millis::from_secs(START + at + 3001));
}

#[tokio::test]
async fn what_a_sync_stores_is_cut_by_bytes() {
    let server = Server::start();
    let schedules = queue(&server).await.schedules();
    let large = NewJob::new(&"x".repeat(1_000_000)).unwrap();
    let large = Schedule::every(MINUTE, large).unwrap();
    let list: Vec<_> = (0..10).map(|number| (format!("s{number}"), large.clone())).collect();
    schedules.sync("shop", &list[..1]).await.unwrap();
    let mut meter = Meter::of(&server);
    let before = meter.calls("evalsha") + meter.calls("eval");
    assert_eq!(schedules.sync("shop", &list).await.unwrap().created.len(), 9);
    // Each round reads what is there page by page, the last page is empty, and the first round asks for those that are not there.
    let calls = meter.calls("evalsha") + meter.calls("eval") - before;
    assert_eq!(calls, (1 + 1 + 1) + 3 + (3 + 1), "four of the nine a call");
}

/// A hundred slots with large data were one call of a hundred megabytes.
#[tokio::test]
async fn what_fires_is_cut_by_bytes_and_by_jobs() {
    let server = Server::start();
    let queue = queue(&server).await;
    let schedules = queue.schedules();
    let large = NewJob::new(&"x".repeat(1_000_000)).unwrap();
    let large = Schedule::every(MINUTE, large).unwrap().catch_up(CatchUp::All(100));
    schedules.put("large", &large.count(20)).await.unwrap();
    schedules.put("never", &every(60).catch_up(CatchUp::Skip).grace(Duration::ZERO)).await.unwrap();
    schedules.put("tail", &every(60).catch_up(CatchUp::All(100))).await.unwrap();
    // Once, so that the server knows the scripts.
    set(&queue, 61).await;
    assert_eq!(schedules.fire_due().await.unwrap(), 2);
    set(&queue, 601).await;
    let mut meter = Meter::of(&server);
    let calls = |meter: &mut Meter| meter.calls("evalsha") + meter.calls("eval");
    let before = calls(&mut meter);
    assert_eq!(schedules.fire_due().await.unwrap(), 9 + 9);
    assert_eq!(calls(&mut meter) - before, 2 + 3, "two looks, and four of the nine slots a call");
    let view = schedules.get("large").await.unwrap().unwrap();
    assert_eq!((view.fired, view.last), (10, Some(Millis::from_secs(START + 600))));
    assert_eq!(view.next, Some(Millis::from_secs(START + 660)));
    // What one program began another one goes on with.
    set(&queue, 1201).await;
    let others = client(&server).queue("a").unwrap().schedules();
    let _ = tokio::time::timeout(Duration::from_millis(30), schedules.fire_due()).await;
    let fired = tokio::join!(schedules.fire_due(), others.fire_due());
    fired.0.unwrap();
    fired.1.unwrap();
    let view = schedules.get("large").await.unwrap().unwrap();
    assert_eq!((view.fired, view.next, view.fires.len()), (20, None, 20));
    assert_eq!(queue.counts().await.unwrap().ready, 20 + 20);
}
