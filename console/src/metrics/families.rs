//! The metrics: their names, types and help, and what each of them shows of a queue.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use super::text::{Kind, Text};
use super::{Content, ReadQueue};
use crate::show::{number, printable};
use duly::{Millis, NameRates, RunCounts, Spread, State};

/// A metric of queues.
struct OfQueues {
    name: &'static str,
    help: &'static str,
    /// Its values for one queue, each with a label of its own.
    values: fn(&Content) -> Vec<(Label<'static>, f64)>,
}

/// A label beside that of the queue.
type Label<'a> = (&'a str, &'a str);

const NO_LABEL: Label<'static> = ("", "");
const STATES: [State; 4] = [State::Delayed, State::Ready, State::Reserved, State::Failed];

const OF_QUEUES: [OfQueues; 8] = [
    OfQueues {
        name: "duly_jobs",
        help: "Jobs of the queue in each state.",
        values: |queue| STATES.map(|state| (("state", state.as_str()), number(queue.counts.of(state)))).to_vec(),
    },
    OfQueues {
        name: "duly_oldest_ready_seconds",
        help: "For how long the oldest ready job could have run, since the end of the delay of its push: by the clock of the host that pushed \
               it; retries do not change it. 0 if no job is ready.",
        values: |queue| one(seconds(queue.counts.oldest_ready_age)),
    },
    OfQueues {
        name: "duly_overdue_seconds",
        help: "For how long the first delayed job is due that no worker has asked for. 0 if none is due.",
        values: |queue| one(seconds(queue.counts.overdue)),
    },
    OfQueues {
        name: "duly_queue_paused",
        help: "1 if the queue, or one of its partitions, is paused: workers get no job of that.",
        values: |queue| one(flag(queue.counts.paused)),
    },
    OfQueues {
        name: "duly_queue_held",
        help: "1 if a limit, of the queue or of names, holds jobs back now.",
        values: |queue| one(flag(queue.counts.held.is_some())),
    },
    OfQueues {
        name: "duly_concurrency_limit_jobs",
        help: "The most jobs of the queue that run at once. No sample without such a limit.",
        values: |queue| queue.limits.concurrency.map(|most| (NO_LABEL, f64::from(most))).into_iter().collect(),
    },
    OfQueues {
        name: "duly_rate_limit_jobs_per_second",
        help: "How many jobs of the queue may start in a second. No sample without such a limit.",
        values: |queue| {
            let per_second = |rate: duly::Rate| (NO_LABEL, f64::from(rate.jobs) / rate.per.as_secs_f64());
            queue.limits.rate.map(per_second).into_iter().collect()
        },
    },
    OfQueues {
        name: "duly_workers",
        help: "Workers that serve the queue and are alive: a dead one is counted for 30 s.",
        values: |queue| one(number(queue.workers.len() as u64)),
    },
];

/// Where histograms are cut, in seconds.
const BOUNDS: [f64; 10] = [0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0, 60.0, 300.0, 3600.0];

/// A histogram of runs.
type OfTimes = (&'static str, &'static str, fn(&RunCounts) -> &Spread);

const TIMES: [OfTimes; 2] = [
    (
        "duly_job_wait_seconds",
        "For how long jobs had been due when their first run began, by the clocks of the hosts that pushed and ran them. Without jobs whose \
         id the user chose.",
        |counts| &counts.wait,
    ),
    ("duly_job_duration_seconds", "How long runs took.", |counts| &counts.run),
];

/// A total of a queue, as the server counts it.
struct Total {
    name: &'static str,
    help: &'static str,
}

const TOTALS: [Total; 11] = [
    Total { name: "pushed", help: "Jobs that were pushed." },
    Total { name: "acked", help: "Jobs that are done." },
    Total { name: "retried", help: "Runs that failed and were followed by a retry." },
    Total { name: "released", help: "Jobs that workers gave back without an outcome." },
    Total { name: "failed", help: "Jobs that failed for good." },
    Total { name: "reclaimed", help: "Jobs whose lease ended: their worker died, or was cut off." },
    Total { name: "cancelled", help: "Jobs that were cancelled." },
    Total { name: "requeued", help: "Failed jobs that were made ready again by hand." },
    Total { name: "purged", help: "Jobs that were removed by hand with all others in their state." },
    Total { name: "trimmed", help: "Failed jobs that were removed because the queue keeps only so many, for so long." },
    Total { name: "expired", help: "Jobs that were dropped because no run of them had started when they expired." },
];

/// The whole text. Without `is_up` there are no queues.
pub(super) fn write(is_up: bool, queues: &[ReadQueue]) -> String {
    let mut text = Text::default();
    let mut gauge = |name, help, values: Vec<(Vec<(&str, &str)>, f64)>| {
        if !values.is_empty() {
            text.metric(name, Kind::Gauge, help);
            for (labels, value) in values {
                text.sample(name, Kind::Gauge, &labels, value);
            }
        }
    };
    gauge("duly_up", "1 if the server was reached.", vec![(Vec::new(), flag(is_up))]);
    let readable = unique(queues).map(|queue| (labels(queue, NO_LABEL), flag(queue.content.is_some()))).collect();
    gauge("duly_queue_readable", "1 if the queue could be read. If not, it has no other sample.", readable);
    let read = || queues.iter().filter_map(|queue| Some((queue, queue.content.as_ref()?)));
    for metric in &OF_QUEUES {
        let of_queue = |(queue, content)| {
            (metric.values)(content).into_iter().map(move |(label, value)| (labels(queue, label), value))
        };
        gauge(metric.name, metric.help, read().flat_map(of_queue).collect());
    }
    if is_up {
        let help = "Jobs that all workers of these queues can run at once, each worker counted once. It is busy with at most 20 jobs of a queue \
                    here, as it reported up to 10 s ago.";
        let slots = slots(read().map(|(_, content)| content));
        gauge("duly_worker_slots", help, slots.map(|(state, count)| (vec![("state", state)], number(count))).to_vec());
    }
    for total in &TOTALS {
        let name = format!("duly_jobs_{}", total.name);
        if read().next().is_some() {
            text.metric(&name, Kind::Counter, total.help);
        }
        for (queue, content) in read() {
            text.sample(&name, Kind::Counter, &labels(queue, NO_LABEL), content.counts.total(total.name));
        }
    }
    runs(&mut text, &read().collect::<Vec<_>>());
    text.end()
}

/// What runs came to, as workers count it.
fn runs(text: &mut Text, queues: &[(&ReadQueue, &Content)]) {
    let of_names: Vec<_> = queues
        .iter()
        .flat_map(|(queue, content)| by_name(content).into_iter().map(|(name, counts)| (*queue, name, counts)))
        .collect();
    if of_names.is_empty() {
        return;
    }
    text.metric(
        "duly_job_runs",
        Kind::Counter,
        "Runs of jobs by what came of them, as workers have reported up to 10 s ago.",
    );
    for (queue, name, counts) in &of_names {
        let outcomes = [
            ("done", counts.done),
            ("failed", counts.failed),
            ("retried", counts.retried),
            ("released", counts.released),
        ];
        for (outcome, count) in outcomes {
            let labels = [&labels(queue, ("name", name))[..], &[("outcome", outcome)]].concat();
            text.sample("duly_job_runs", Kind::Counter, &labels, count);
        }
    }
    for (metric, help, times) in TIMES {
        text.metric(metric, Kind::Histogram, help);
        for (queue, name, counts) in &of_names {
            let times = times(counts);
            let bounds = BOUNDS.map(|bound| (format!("{bound:?}"), times.up_to(Duration::from_secs_f64(bound))));
            let up_to = bounds.into_iter().chain([("+Inf".to_owned(), times.count())]);
            text.histogram(metric, &labels(queue, ("name", name)), up_to, times.sum().as_secs_f64());
        }
    }
}

/// Names that others have written can be the same as they are shown: of two the first counts, which is the busier one.
fn by_name(content: &Content) -> Vec<(String, &RunCounts)> {
    let mut seen = HashSet::new();
    let named = content.runs.iter().map(|of| (named(of), &of.counts));
    named.filter(|(name, _)| seen.insert(name.clone())).collect()
}

/// As it is shown. Jobs without a name have no such label, as a label without a value is the same as none.
fn named(of: &NameRates) -> String {
    match &of.name {
        Some(name) => printable(name),
        None if of.others => "(others)".to_owned(),
        None => String::new(),
    }
}

/// A queue with partitions may have the name of one without.
fn labels<'a>(queue: &'a ReadQueue, label: Label<'a>) -> Vec<(&'a str, &'a str)> {
    let partitioned = if queue.partitions > 0 { "yes" } else { "" };
    vec![("queue", &queue.name), ("partitioned", partitioned), label]
}

/// Names that duly does not accept, and others may have written, can be the same as they are shown.
fn unique(queues: &[ReadQueue]) -> impl Iterator<Item = &ReadQueue> {
    let mut seen = HashSet::new();
    queues.iter().filter(move |queue| seen.insert((&queue.name, queue.partitions > 0)))
}

/// How many executors of the workers run a job, and how many are free.
fn slots<'a>(queues: impl Iterator<Item = &'a Content>) -> [(&'static str, u64); 2] {
    let mut workers: HashMap<&str, (usize, usize)> = HashMap::new();
    for worker in queues.flat_map(|content| &content.workers) {
        let (concurrency, busy) = workers.entry(&worker.id).or_default();
        *concurrency = worker.concurrency;
        *busy += worker.running.len();
    }
    let busy = |(concurrency, busy): &(usize, usize)| (*busy).min(*concurrency) as u64;
    let all: u64 = workers.values().map(|(concurrency, _)| *concurrency as u64).sum();
    let busy: u64 = workers.values().map(busy).sum();
    [("busy", busy), ("free", all - busy)]
}

fn one(value: f64) -> Vec<(Label<'static>, f64)> {
    vec![(NO_LABEL, value)]
}

fn flag(is_so: bool) -> f64 {
    f64::from(u8::from(is_so))
}

fn seconds(span: Option<Millis>) -> f64 {
    span.map_or(0.0, Millis::as_seconds)
}
