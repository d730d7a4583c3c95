//! The waits of a worker for wake-ups: one for all its queues where one server has them, else one for each queue.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::watch;

use super::desk::{Desk, Outage};
use super::outlasts::Past;
use crate::connection::{Backoff, Enough, Woken};
use crate::queue::Part;
use crate::script::Key;
use crate::value::error::Error;

/// How long one wait for a wake-up lasts before it is begun anew.
const WAKE_WAIT: Duration = Duration::from_secs(60);
/// The same after a wait that failed, to see whether waiting is possible again.
const PROBE: Duration = Duration::from_millis(500);
/// A queue that was woken is waited for anew only when it was looked at, and the others meanwhile: so waits come to be for fewer
/// and fewer queues. When there are so many, one stands for all.
const MOST_WAITS: usize = 4;

/// The waits under way. They are kept over calls, because to end one costs a command.
pub(super) struct Wakes {
    desk: Arc<Desk>,
    waits: Vec<Wait>,
    /// By index of the queue: is it waited for?
    covered: Vec<bool>,
    /// A wait for several queues was refused, be it by a proxy or because of one of them: each by itself says why.
    apart: bool,
    /// Who was woken last. The server looks at the lists in the order in which they are named, and this one's turn is last.
    last: usize,
}

struct Wait {
    indexes: Vec<usize>,
    /// Another one stands for it.
    is_ending: bool,
    enough: watch::Sender<bool>,
    ends: Pin<Box<dyn Future<Output = Result<Woken, Error>> + Send>>,
}

/// There is a reason to look.
pub(super) struct Wake {
    /// At these queues.
    pub(super) indexes: Vec<usize>,
    /// A wake-up was taken here, which somebody else may need.
    pub(super) took: Option<usize>,
    /// It was there for a schedule.
    pub(super) is_of_schedule: bool,
}

impl Wakes {
    pub(super) fn new(desk: Arc<Desk>, queues: usize) -> Self {
        Self { desk, waits: Vec::new(), covered: vec![false; queues], apart: false, last: 0 }
    }

    /// Sees to it that all queues that are `wanted` are waited for.
    pub(super) fn cover<'a>(
        &mut self,
        wanted: impl Fn(usize) -> bool,
        queue: impl Fn(usize) -> (&'a Part, &'a Arc<Past>),
    ) {
        let mut missing = self.missing(&wanted);
        let Some(&first) = missing.first() else { return };
        if self.apart || !queue(first).0.client.waits_together() {
            for index in missing {
                self.begin(vec![index], &queue);
            }
            return;
        }
        if self.waits.iter().filter(|wait| !wait.is_ending).count() >= MOST_WAITS {
            for wait in &mut self.waits {
                wait.is_ending = true;
                wait.enough.send_replace(true);
            }
            self.covered.fill(false);
            missing = self.missing(&wanted);
        }
        self.begin(missing, &queue);
    }

    fn missing(&self, wanted: impl Fn(usize) -> bool) -> Vec<usize> {
        let behind_last = (self.last + 1..self.covered.len()).chain(0..=self.last);
        behind_last.filter(|&index| !self.covered[index] && wanted(index)).collect()
    }

    fn begin<'a>(&mut self, indexes: Vec<usize>, queue: impl Fn(usize) -> (&'a Part, &'a Arc<Past>)) {
        let waited = indexes.iter().map(|&index| queue(index));
        let waited: Vec<_> = waited.map(|(queue, past)| (queue.clone(), Arc::clone(past))).collect();
        for &index in &indexes {
            self.covered[index] = true;
        }
        let (enough, is_enough) = watch::channel(false);
        let ends = Box::pin(wait_for_wake(waited, Arc::clone(&self.desk), is_enough));
        self.waits.push(Wait { indexes, is_ending: false, enough, ends });
    }

    /// The next reason to look. Errors: those that waiting does not cure.
    pub(super) async fn next(&mut self) -> Result<Wake, Error> {
        poll_fn(|context| self.poll_next(context)).await
    }

    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Result<Wake, Error>> {
        let mut at = 0;
        while at < self.waits.len() {
            let Poll::Ready(woken) = self.waits[at].ends.as_mut().poll(context) else {
                at += 1;
                continue;
            };
            // In their order: those that end give their connections to the one that stands for them.
            let ended = self.waits.remove(at);
            if !ended.is_ending {
                for &index in &ended.indexes {
                    self.covered[index] = false;
                }
            }
            match woken {
                Ok(Woken::Yes(sign)) => {
                    self.last = ended.indexes[sign.index];
                    let is_of_schedule = sign.is_of_schedule;
                    return Poll::Ready(Ok(Wake { indexes: vec![self.last], took: Some(self.last), is_of_schedule }));
                }
                Ok(Woken::No) | Err(_) if ended.is_ending => {}
                Ok(_) => return Poll::Ready(Ok(Wake { indexes: ended.indexes, took: None, is_of_schedule: false })),
                Err(_) if ended.indexes.len() > 1 => {
                    self.apart = true;
                    return Poll::Ready(Ok(Wake { indexes: ended.indexes, took: None, is_of_schedule: false }));
                }
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        Poll::Pending
    }
}

/// Waits for a wake-up. Errors: those that waiting does not cure.
async fn wait_for_wake(waited: Vec<(Part, Arc<Past>)>, desk: Arc<Desk>, enough: Enough) -> Result<Woken, Error> {
    let Some((queue, _)) = waited.first() else { return Ok(Woken::No) };
    let spelled: Vec<_> = waited.iter().map(|(queue, _)| queue.shared.keys.spell(Key::Wake)).collect();
    let keys: Vec<_> = spelled.iter().map(String::as_bytes).collect();
    let mut outage = Outage::of_call(&desk);
    let mut backoff = Backoff::default();
    loop {
        let wait = if outage.has_failed() { PROBE } else { WAKE_WAIT };
        match queue.client.wait_for_wakes("reserve", queue.shared.keys.slot(), &keys, wait, Some(&enough)).await {
            Ok(woken) => {
                if woken != Woken::Perhaps {
                    for (_, past) in &waited {
                        past.has_waited();
                    }
                }
                if woken == Woken::No && !outage.has_failed() && !*enough.borrow() {
                    outage = Outage::of_call(&desk);
                } else {
                    return Ok(woken);
                }
            }
            Err(error) if *enough.borrow() || !waited.iter().all(|(_, past)| past.waits_again(&error)) => {
                return Err(queue.during("reserve")(error));
            }
            Err(error) => {
                outage.failed(&error);
                backoff.rest().await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::Client;
    use crate::worker::WorkerSettings;

    /// The indexes of the waits under way, those that are ending aside.
    fn under_way(wakes: &Wakes) -> Vec<Vec<usize>> {
        wakes.waits.iter().filter(|wait| !wait.is_ending).map(|wait| wait.indexes.clone()).collect()
    }

    #[tokio::test]
    async fn a_few_waits_become_one_and_whoever_was_woken_comes_last() {
        let client = Client::builder().url("redis://127.0.0.1:1").build().unwrap();
        let settings = WorkerSettings::new((0..6).map(|n| (format!("queue{n}"), 1)).collect());
        let desk = Arc::new(Desk::new(&settings));
        let queues: Vec<_> = (0..6).map(|n| client.queue_or_part(&format!("queue{n}")).unwrap()).collect();
        let past = Arc::new(Past::default());
        let queue = |index: usize| (&queues[index], &past);

        let mut unknown = Wakes::new(Arc::clone(&desk), 6);
        unknown.cover(|index| index < 2, queue);
        assert_eq!(under_way(&unknown), [[1], [0]], "nobody knows yet whether it is a cluster");

        client.ping().await.unwrap_err(); // nobody listens there, and nothing but that matters
        let mut wakes = Wakes::new(desk, 6);
        wakes.cover(|_| false, queue);
        assert!(under_way(&wakes).is_empty());
        wakes.cover(|index| index < 2, queue);
        assert_eq!(under_way(&wakes), [[1, 0]]);
        for index in 2..5 {
            wakes.cover(|wanted| wanted <= index, queue);
        }
        assert_eq!(under_way(&wakes), [vec![1, 0], vec![2], vec![3], vec![4]]);
        wakes.last = 4;
        wakes.cover(|wanted| wanted != 3, queue);
        assert_eq!(under_way(&wakes), [[5, 0, 1, 2, 4]]);
        wakes.cover(|_| true, queue);
        assert_eq!(under_way(&wakes), [vec![5, 0, 1, 2, 4], vec![3]]);
    }
}
