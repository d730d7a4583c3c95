//! Waits between calls, and what happens to promises and wake-ups then.

use std::time::Instant;

use super::Fetcher;
use super::lane::LOOK_AGAIN;
use crate::process::alarm;
use crate::queue::Part;
use crate::value::error::Error;
use crate::worker::desk::Want;

impl Fetcher {
    /// A worker without a free executor does not come back in time: another must.
    pub(super) fn give_up_promises(&mut self, want: Want) {
        for index in 0..self.lanes.len() {
            let lane = &self.lanes[index];
            if lane.promise > 0 && lane.wants(want) == 0 && lane.takes_a_call() {
                self.start(index, 0);
                self.lanes[index].promise = 0;
            }
        }
    }

    /// Until something happens. `looked`: when it was found that there is nothing to do.
    pub(super) async fn sleep(&mut self, looked: Instant, until: Option<Instant>, want: Want) -> Result<(), Error> {
        // Even if a reason to wake were forgotten here, that would cost seconds and not for ever.
        let mut until = until.unwrap_or(looked + LOOK_AGAIN).min(looked + LOOK_AGAIN);
        for (index, lane) in self.lanes.iter().enumerate() {
            if lane.sleeps(want, looked) {
                until = until.min(lane.look_at);
            }
            until = self.silent_at(index).map_or(until, |at| until.min(at));
        }
        let lanes = &self.lanes;
        self.wakes.cover(|index| lanes[index].sleeps(want, looked), |index| (&lanes[index].queue, &lanes[index].past));
        let mut answered = None;
        let woken = tokio::select! {
            () = self.desk.called() => None,
            Some(answer) = self.calls.join_next() => {
                answered = Some(answer);
                None
            }
            wake = self.wakes.next() => wake.map_err(|error| self.desk.fails(error)).ok(),
            () = alarm::at(until) => None,
        };
        self.desk.awake();
        if let Some(answer) = answered {
            self.take_answer(answer)?;
        }
        let Some(wake) = woken else { return Ok(()) };
        if wake.is_of_schedule
            && let Some(index) = wake.took
        {
            self.desk.schedule_changed(index);
            return Ok(());
        }
        for index in wake.indexes {
            self.lanes[index].looks_anew(Instant::now());
        }
        if let Some(index) = wake.took
            && self.lanes[index].wants(want) == 0
        {
            // Beside the loop, which has more to do than to wait for a server that does not answer.
            tokio::spawn(pass_on(self.lanes[index].queue.clone()));
        }
        Ok(())
    }
}

/// A wake-up that came while no executor is free is for another worker.
async fn pass_on(queue: Part) {
    // If it fails, all waiters still look again by themselves.
    let _ = queue.wake_another().await;
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::queue::Client;
    use crate::worker::WorkerSettings;
    use crate::worker::desk::Desk;

    #[tokio::test]
    async fn what_becomes_due_between_the_look_and_the_sleep_is_not_slept_over() {
        // Nothing is sent: the queue is due before a connection is.
        let client = Client::builder().url("redis://127.0.0.1:1").build().unwrap();
        let settings = WorkerSettings::new(vec![("orders".to_owned(), 1)]);
        let desk = Arc::new(Desk::new(&settings));
        let mut fetcher = Fetcher::new(&client, &settings, desk).unwrap();
        let looked = Instant::now();
        fetcher.lanes[0].look_at = looked + Duration::from_nanos(1);
        let slept = fetcher.sleep(looked, None, Want { jobs: 1, free: 1 });
        tokio::time::timeout(Duration::from_secs(1), slept).await.expect("it sleeps on").unwrap();
    }
}
