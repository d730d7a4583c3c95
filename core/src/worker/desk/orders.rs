//! The desk under every order of what its executors, its fetch loop, its timer and its server do. One thread is enough for that: each
//! method of the desk takes its lock once, so an order of calls is all that threads can make of them.

mod scenario;
mod world;

#[cfg(test)]
mod tests {
    use super::scenario::{Kind, Rare, Scenario};
    use super::world::World;
    use crate::every_order::every_order;
    use crate::queue::Client;

    /// Goes through all orders.
    fn check(scenario: &Scenario<'_>) {
        // Entered only: what a test polls has no budget then, after which everything would have to wait.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let _entered = runtime.enter();
        let queue = Client::builder().url("redis://127.0.0.1:1").build().unwrap().queue_or_part("orders").unwrap();
        let orders = every_order(|draw| World::new(scenario, &queue).run(draw)).unwrap();
        assert!(orders > 1000, "{orders}");
    }

    const USUAL: Scenario<'_> = Scenario {
        kinds: &[],
        lanes: 1,
        concurrency: 1,
        owners: 1,
        calls_at_once: 1,
        max_jobs: None,
        is_pulled: false,
        fetches_ahead: false,
        renewals: 0,
        rare: &[],
        before: 0,
        events: 0,
    };

    #[test]
    fn in_no_order_an_interruption_hits_another_run_or_a_run_is_settled_twice() {
        check(&Scenario {
            kinds: &[Kind::done("a"), Kind::failing("b")],
            calls_at_once: 2,
            rare: &[Rare::Ring, Rare::Stop, Rare::GraceEnds],
            before: 4,
            events: 6,
            ..USUAL
        });
    }

    #[test]
    fn in_no_order_a_lost_lease_hits_another_run_or_is_forgotten() {
        check(&Scenario {
            kinds: &[Kind::done("a"), Kind::done("b")],
            renewals: 2,
            rare: &[Rare::Lose, Rare::Stop],
            before: 4,
            events: 5,
            ..USUAL
        });
    }

    #[test]
    fn in_no_order_a_delivery_that_is_over_settles_the_next_one() {
        check(&Scenario {
            kinds: &[Kind::done("a"), Kind::failing("b")],
            owners: 2,
            is_pulled: true,
            renewals: 1,
            rare: &[Rare::Ring, Rare::Lose, Rare::Stop, Rare::GraceEnds],
            before: 4,
            events: 5,
            ..USUAL
        });
    }

    #[test]
    fn in_no_order_a_run_starts_before_its_start_is_noted() {
        check(&Scenario {
            kinds: &[Kind::suspect("a"), Kind::without_retries("b"), Kind::suspect("c"), Kind::done("d")],
            concurrency: 2,
            owners: 2,
            fetches_ahead: true,
            renewals: 1,
            rare: &[Rare::Lose, Rare::Stop],
            events: 5,
            ..USUAL
        });
    }

    #[test]
    fn in_no_order_what_was_decided_or_said_by_a_handler_is_lost() {
        check(&Scenario {
            kinds: &[Kind::without_retries("a").that_fails(), Kind::failing("b")],
            renewals: 1,
            rare: &[Rare::Decide, Rare::Says, Rare::Ring, Rare::Lose, Rare::Stop, Rare::GraceEnds],
            before: 4,
            events: 6,
            ..USUAL
        });
    }

    #[test]
    fn in_no_order_a_silent_queue_or_a_stop_without_a_server_leaves_something_behind() {
        check(&Scenario {
            kinds: &[Kind::done("a"), Kind::without_retries("b").of(1), Kind::done("c").of(1)],
            lanes: 2,
            fetches_ahead: true,
            rare: &[Rare::Silence, Rare::Stop, Rare::GiveUp, Rare::Hoard],
            max_jobs: Some(2),
            events: 6,
            ..USUAL
        });
    }
}
