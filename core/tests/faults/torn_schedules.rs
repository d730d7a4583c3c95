//! A script for schedules that was cut anywhere: no slot is lost, none fires twice, and who says again what a schedule is has it so.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::support::Server;
use crate::support::torn::{Again, Written, shown, writing};
use duly::{AuditOptions, CatchUp, Millis, NewJob, Overlap, Queue, ReserveOptions, Schedule};

const START: u64 = 1_790_000_040; // a whole minute

fn every(seconds: u64, overlap: Overlap) -> Schedule {
    let job = NewJob::from_json("1").unwrap().priority(3);
    Schedule::every(Duration::from_secs(seconds), job).unwrap().overlap(overlap).catch_up(CatchUp::All(3))
}

fn queue(server: &Server) -> Queue {
    server.builder().manual_clock().build().unwrap().queue("orders").unwrap()
}

async fn set(queue: &Queue, seconds: u64) {
    queue.set_clock(Millis::from_secs(START + seconds)).await.unwrap();
}

/// Runs what is ready, and notes how often each job has run.
async fn run(queue: &Queue, ran: &mut BTreeMap<String, u32>) {
    loop {
        let jobs = queue.reserve(&ReserveOptions::new().max(10)).await.unwrap();
        if jobs.is_empty() {
            return;
        }
        for job in jobs {
            *ran.entry(job.id().to_owned()).or_default() += 1;
            job.ack().await.unwrap();
        }
    }
}

async fn repair(queue: &Queue) {
    queue.audit(AuditOptions::new().repair(true)).await.unwrap();
    let left = queue.audit(AuditOptions::new()).await.unwrap();
    assert!(left.is_clean(), "{left:?}");
}

/// In whichever order workers run jobs and fire slots behind the restart, and somebody repairs. What an audit makes ready before anybody
/// looks for slots, and has run by then, is the one that fires twice: `docs/servers.md` says so.
#[tokio::test]
async fn each_slot_fires_once_wherever_its_fire_was_cut() {
    let ids = |slots: &[u32]| -> Vec<String> {
        ["other", "report"]
            .iter()
            .flat_map(|name| slots.iter().map(move |minute| format!("{name}@2026-09-21T14:{minute}:00Z")))
            .collect()
    };
    for (overlap, fires) in [
        (Overlap::Allow, ids(&[15, 16, 17, 18])),
        // Of three slots at once the first one is there, and holds up the others.
        (Overlap::Skip, ids(&[15, 18])),
        // The last one cancels the others.
        (Overlap::Replace, ids(&[17, 18])),
    ] {
        let server = writing();
        let orders = queue(&server);
        set(&orders, 0).await;
        for name in ["report", "other"] {
            orders.schedules().put(name, &every(60, overlap)).await.unwrap();
        }
        set(&orders, 181).await;
        let first = Written::by(&server).0.len();
        orders.schedules().fire_due().await.unwrap();
        let written = Written::by(&server);
        let (mut again, cuts) = (Again::start(), written.cuts(first));
        assert!(cuts.len() > 12, "{}", cuts.len());
        let orders = queue(&again.server);
        for cut in cuts {
            for runs_first in [false, true] {
                again.replay(&written, cut);
                let mut ran = BTreeMap::new();
                if runs_first {
                    run(&orders, &mut ran).await;
                }
                orders.schedules().fire_due().await.unwrap();
                repair(&orders).await;
                run(&orders, &mut ran).await;
                // And it goes on.
                set(&orders, 241).await;
                orders.schedules().fire_due().await.unwrap();
                run(&orders, &mut ran).await;
                repair(&orders).await;
                let behind = format!("{overlap:?}, behind {:?}, runs first: {runs_first}", shown(&written.0[cut]));
                assert!(ran.values().all(|&times| times == 1), "{ran:?}, {behind}");
                let ran: Vec<_> = ran.into_keys().collect();
                assert!(fires.iter().all(|id| ran.contains(id)), "{ran:?}, {behind}");
                // A job that its successor would have cancelled may have run before.
                let may_run_before = runs_first && overlap == Overlap::Replace;
                assert!(ran.len() == fires.len() || may_run_before, "{ran:?}, {behind}");
                for name in ["other", "report"] {
                    let view = orders.schedules().get(name).await.unwrap().unwrap();
                    assert_eq!((view.fired, view.next), (4, Some(Millis::from_secs(START + 300))), "{behind}");
                }
            }
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum Change {
    Create,
    Edit,
    Postpone,
    Pause,
    Resume,
    Revive,
    Remove,
}

impl Change {
    async fn prepare(self, queue: &Queue) {
        set(queue, 0).await;
        let schedules = queue.schedules();
        schedules.put("beside", &every(3600, Overlap::Allow)).await.unwrap();
        match self {
            Self::Create => {}
            Self::Edit => drop(schedules.put("a", &every(3600, Overlap::Allow)).await.unwrap()),
            Self::Postpone | Self::Pause | Self::Remove => {
                schedules.put("a", &every(60, Overlap::Skip)).await.unwrap();
            }
            Self::Resume => {
                schedules.put("a", &every(60, Overlap::Allow)).await.unwrap();
                schedules.pause("a").await.unwrap();
            }
            Self::Revive => {
                schedules.put("a", &every(10, Overlap::Allow).count(1)).await.unwrap();
                set(queue, 11).await;
                assert_eq!(schedules.fire_due().await.unwrap(), 1);
                queue.purge(duly::State::Ready).await.unwrap();
            }
        }
    }

    async fn make(self, queue: &Queue) {
        let schedules = queue.schedules();
        match self {
            Self::Create | Self::Edit | Self::Revive => {
                schedules.put("a", &every(60, Overlap::Allow)).await.unwrap();
            }
            Self::Postpone => drop(schedules.put("a", &every(600, Overlap::Allow)).await.unwrap()),
            Self::Pause => drop(schedules.pause("a").await.unwrap()),
            Self::Resume => drop(schedules.resume("a").await.unwrap()),
            Self::Remove => drop(schedules.remove("a").await.unwrap()),
        }
    }
}

/// What a program sees of it, and what it has fired some minutes later. That it has run already when it was over is not asked.
async fn seen(server: &Server, queue: &Queue) -> String {
    let schedules = queue.schedules();
    let view = schedules.get("a").await.unwrap();
    let view = view.map(|view| (view.schedule.map(|schedule| schedule.interval()), view.next, view.is_paused));
    let mut listed: Vec<_> = schedules.list(0, 9).await.unwrap().into_iter().map(|view| view.name).collect();
    listed.sort();
    let all = server.dump("call:").concat();
    let left = ["schedules", "schedule_state", "schedule_due"].map(|key| {
        let line = server.dump("call:").into_iter().find(|line| line.starts_with(&format!("duly:{{orders}}:{key} ")));
        line.is_some_and(|line| line.contains(if key == "schedule_due" { "a|" } else { "a=" }))
    });
    assert!(all.contains("schedule_next="), "workers hear of no schedule: {all}");
    let next: u64 = server.redis_cli(&["HGET", "duly:{orders}:meta", "schedule_next"]).trim().parse().unwrap();
    let due = server.redis_cli(&["ZRANGE", "duly:{orders}:schedule_due", "0", "0", "WITHSCORES"]);
    let due: u64 = due.lines().nth(1).unwrap().trim().parse().unwrap();
    assert!(next <= due, "workers hear too late of the next slot: {next}, {due}");
    let mut fired = Vec::new();
    for minute in 2..=11 {
        set(queue, 60 * minute).await;
        fired.push(schedules.fire_due().await.unwrap());
        queue.purge(duly::State::Ready).await.unwrap();
    }
    format!("{view:?} {listed:?} {left:?} {fired:?}")
}

#[tokio::test]
async fn a_change_of_a_schedule_that_was_cut_anywhere_is_made_by_saying_it_again() {
    use Change::{Create, Pause, Postpone, Remove, Resume, Revive};
    for change in [Create, Change::Edit, Postpone, Pause, Resume, Revive, Remove] {
        let server = writing();
        let orders = queue(&server);
        change.prepare(&orders).await;
        let first = Written::by(&server).0.len();
        change.make(&orders).await;
        let written = Written::by(&server);
        let expected = seen(&server, &orders).await;
        let (mut again, cuts) = (Again::start(), written.cuts(first));
        assert!(cuts.len() > 1, "{change:?}");
        for cut in cuts {
            again.replay(&written, cut);
            // Another client: that one knows what it has done.
            let orders = queue(&again.server);
            change.make(&orders).await;
            let found = seen(&again.server, &orders).await;
            assert_eq!(found, expected, "{change:?}, behind {:?}", shown(&written.0[cut]));
        }
    }
}
