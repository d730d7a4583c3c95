//! When calls begin, end and are executed: a call that its client gave up must not be executed behind one that the client made
//! after it. Otherwise a `pause` that timed out would win over the `resume` that followed.

use std::collections::BTreeMap;

use super::command::CallId;

#[derive(Debug, Default)]
pub(super) struct Orders {
    moment: u64,
    calls: BTreeMap<(String, u64), Life>,
}

#[derive(Debug, Default)]
struct Life {
    begun: u64,
    ended: Option<u64>,
    is_answered: bool,
    is_executed: bool,
}

impl Orders {
    pub(super) fn begun(&mut self, call: &CallId) {
        self.moment += 1;
        let life = Life { begun: self.moment, ..Life::default() };
        self.calls.insert((call.client.clone(), call.number), life);
    }

    pub(super) fn ended(&mut self, client: &str, number: u64, is_answered: bool) {
        self.moment += 1;
        if let Some(life) = self.calls.get_mut(&(client.to_owned(), number)) {
            (life.ended, life.is_answered) = (Some(self.moment), is_answered);
        }
    }

    pub(super) fn is_given_up(&self, call: &CallId) -> bool {
        let life = self.calls.get(&(call.client.clone(), call.number));
        life.is_some_and(|life| life.ended.is_some() && !life.is_answered)
    }

    /// A copy of the call has reached the server. (Of an answered call the histories know what no copy may do.)
    pub(super) fn check(&mut self, call: &CallId, is_executed: bool, is_superseded: bool) -> Result<(), String> {
        let Some(life) = self.calls.get_mut(&(call.client.clone(), call.number)) else { return Ok(()) };
        if is_superseded && life.ended.is_none() {
            return Err("a call whose client waits for it was refused as given up".to_owned());
        }
        if !is_executed {
            return Ok(());
        }
        life.is_executed = true;
        let Some(given_up) = life.ended.filter(|_| !life.is_answered) else { return Ok(()) };
        let newer = self
            .calls
            .iter()
            .find(|((client, _), other)| *client == call.client && other.is_executed && other.begun > given_up);
        newer.map_or(Ok(()), |((_, number), _)| {
            Err(format!("executed behind call {number}, made after it was given up"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::state::{Calls, State};
    use super::*;
    use crate::every_order::every_order;
    use crate::queue::{CallNumber, Session};
    use crate::script::MemoryRenewal;

    const QUEUES: [&str; 2] = ["one", "two"];

    /// What happens next, drawn from what can.
    enum Event {
        Begin(usize),
        /// A copy of any call ever made reaches the server.
        Arrive(usize),
        Hear(usize),
        GiveUp(usize),
    }

    struct Made<'a> {
        queue: usize,
        id: CallId,
        number: Option<CallNumber<'a>>,
        is_executed: bool,
    }

    /// Runs one order of events, `draw` giving one of so many each time; the engine's session chooses slots and numbers, and
    /// the server remembers calls as the model says.
    fn run(mut draw: impl FnMut(usize) -> usize, most: usize, forgets: bool) -> Result<(), String> {
        let session = Session::new().unwrap();
        for queue in QUEUES {
            session.next_call(queue, || {}).was_answered();
        }
        let mut servers = [State::default(), State::default()];
        let mut orders = [Orders::default(), Orders::default()];
        let mut made: Vec<Made<'_>> = Vec::new();
        for _ in 0..most {
            let mut events: Vec<Event> = vec![Event::Begin(0), Event::Begin(1)];
            for (index, call) in made.iter().enumerate() {
                events.push(Event::Arrive(index));
                if call.number.is_some() {
                    events.push(Event::GiveUp(index));
                    if call.is_executed {
                        events.push(Event::Hear(index));
                    }
                }
            }
            match events.swap_remove(draw(events.len())) {
                Event::Begin(queue) => {
                    let number = session.next_call(QUEUES[queue], || {});
                    let renewal = if forgets { MemoryRenewal::No } else { number.renewal.clone() };
                    let id = CallId {
                        client: "c".to_owned(),
                        slot: number.slot,
                        number: number.number,
                        renewal,
                        is_known: false,
                    };
                    orders[queue].begun(&id);
                    made.push(Made { queue, id, number: Some(number), is_executed: false });
                }
                Event::Arrive(index) => {
                    let Made { queue, id, .. } = &made[index];
                    let earlier = servers[*queue].earlier(id);
                    orders[*queue].check(id, earlier == Ok(None), earlier.is_err())?;
                    if earlier == Ok(None) {
                        servers[*queue].remember(id, "ok".to_owned());
                    }
                    let is_executed = earlier.is_ok();
                    made[index].is_executed |= is_executed;
                }
                Event::Hear(index) => {
                    let call = &mut made[index];
                    if let Some(number) = call.number.take() {
                        number.was_answered();
                    }
                    orders[call.queue].ended("c", call.id.number, true);
                }
                Event::GiveUp(index) => {
                    let call = &mut made[index];
                    call.number = None;
                    orders[call.queue].ended("c", call.id.number, false);
                }
            }
        }
        let most_slots = servers.iter().flat_map(|server| server.calls.values()).map(|Calls { slots, .. }| slots.len());
        assert!(most_slots.max().unwrap_or(0) <= made.len());
        Ok(())
    }

    #[test]
    fn no_order_of_arrival_lets_an_older_call_win() {
        let orders = every_order(|draw| run(draw, 7, false)).unwrap();
        assert!(orders > 100_000, "{orders}");
        // Longer ones at random, with a fixed seed.
        let mut random = 0x9e37_79b9_7f4a_7c15_u64;
        for _ in 0..8_000 {
            let draw = |count: usize| {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                usize::try_from(random % count as u64).unwrap()
            };
            run(draw, 40, false).unwrap();
        }
    }

    #[test]
    fn the_orders_show_a_client_that_forgets_what_it_gave_up() {
        assert!(every_order(|draw| run(draw, 7, true)).is_err());
    }
}
