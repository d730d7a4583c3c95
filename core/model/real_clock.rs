//! What the clock of the model, which stands still at whole milliseconds, cannot show.

use std::time::Duration;

use crate::script::{
    Declared, FromReply, JobKeys, Key, Levels, MemoryRenewal, Numbering, Outcomes, QueueKeys, Reserve, ReserveReply,
    Variant,
};

use super::server::{Server, queue_keys};

fn server_us(server: &mut Server) -> u64 {
    let (seconds, micros): (u64, u64) = redis::from_redis_value(server.command(&["TIME"])).unwrap();
    seconds * 1_000_000 + micros
}

fn reserve(server: &mut Server, keys: &QueueKeys) -> ReserveReply {
    let (want, lease_ms, wait_ms, max_bytes) = (1, 10_000, 60_000, 1 << 20);
    let (promise, ahead, ack_count, keyed) = (0, 0, 0, 0);
    let script = Reserve {
        want,
        lease_ms,
        wait_ms,
        max_bytes,
        promise,
        ahead,
        ack_count,
        keyed,
        result_count: JobKeys::default(),
    };
    let numbering = Numbering { client: "c0", slot: 0, number: 1, renewal: &MemoryRenewal::No, is_known: true };
    let outcomes = Outcomes::default();
    let request = script.with([&outcomes]);
    let call = request.call(Variant::default(), "q", keys, Levels::one(5), Some(&numbering));
    ReserveReply::decode(server.run(&call).unwrap()).unwrap()
}

#[test]
fn a_waiter_is_told_the_next_moment_to_the_microsecond() {
    let (mut server, keys) = (Server::start(), queue_keys(0));
    let due_ms = server_us(&mut server) / 1000 + 60_000;
    server.command(&["ZADD", &keys.spell(Key::Delayed), &due_ms.to_string(), "a"]);
    server.command(&["HSET", &format!("{}:c0", keys.spell(Key::Call)), "1", "1 ok"]);
    // Many looks, because one may happen to be at a whole millisecond.
    for _ in 0..20 {
        let before = server_us(&mut server);
        let next_in = reserve(&mut server, &keys).next_in.unwrap();
        let after = server_us(&mut server);
        let looked_at = Duration::from_millis(due_ms).saturating_sub(next_in);
        let took_place = Duration::from_micros(before)..=Duration::from_micros(after);
        assert!(took_place.contains(&looked_at), "not from the moment of the look: {looked_at:?} in {took_place:?}");
    }
}
