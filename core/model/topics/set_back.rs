//! A clock that is set back while members hold messages: the server counts their idle time from what is still to come then.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::super::server::Server;
use super::foreign::{given_by, publish};
use super::{AGE_MS, MOST, MOST_BYTES, Numbered, OnePull, Real, START, TOPIC, one_pull};
use crate::script::Key;

const HOUR_MS: u64 = 3_600_000;

/// Redis puts this behind a dump: CRC-64 of Jones, reflected.
fn crc64(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(crc ^ u64::from(*byte), |crc, _| (crc >> 1) ^ (0x95ac_9329_ac4b_c9b5 * (crc & 1)))
    })
}

/// As if what was pulled within the last minute had been pulled an hour later: `XCLAIM` takes no such time.
fn pulled_an_hour_later(real: &mut Real<'_>) -> usize {
    let key = real.keys.spell(Key::Messages);
    let mut dump: Vec<u8> = redis::from_redis_value(real.server.command(&["DUMP", &key])).unwrap();
    let time: Vec<u64> = redis::from_redis_value(real.server.command(&["TIME"])).unwrap();
    let recent = time[0] * 1000 - 60_000..time[0] * 1000 + 60_000;
    let ms = START.to_be_bytes();
    let mut moved = 0;
    // A message that is pulled and not acked: its id, and when it was pulled.
    for at in 0..dump.len() - 24 {
        let pulled_at = u64::from_le_bytes(dump[at + 16..at + 24].try_into().unwrap());
        if dump[at..at + 8] == ms && recent.contains(&pulled_at) {
            dump[at + 16..at + 24].copy_from_slice(&(pulled_at + HOUR_MS).to_le_bytes());
            moved += 1;
        }
    }
    let end = dump.len() - 8;
    let crc = crc64(&dump[..end]);
    dump[end..].copy_from_slice(&crc.to_le_bytes());
    let mut restore = redis::pipe();
    restore.cmd("RESTORE").arg(&key).arg(0).arg(dump).arg("REPLACE");
    real.server.pipeline(&restore);
    moved
}

/// Their idle time is 0 until the clock has caught up.
#[test]
fn what_was_pulled_before_the_clock_was_set_back_is_pulled_anew_a_lease_behind_the_next_pull() {
    let mut server = Server::start();
    let mut real = Real::of(&mut server, 0, TOPIC);
    real.call(&Numbered::Bound([AGE_MS, 5 * MOST, MOST_BYTES]));
    real.subscribe(0);
    real.subscribe(1);
    for call in 1..=2 {
        publish(&mut real, &[1; 600]);
        let (given, _) = given_by(&mut real, &OnePull { call, most: 600, ..one_pull(0) });
        assert_eq!(given.len(), 600);
    }
    let lease = real.keys.spell(Key::Topic);
    real.server.command(&["HSET", &lease, "lease:a", "1"]);
    assert_eq!(pulled_an_hour_later(&mut real), 1200);
    real.server.set_clock(&real.keys, START - HOUR_MS);
    // It gets a message that nobody has pulled, and has looked at a thousand of the others.
    publish(&mut real, &[1]);
    let (mut given, began) = (BTreeSet::new(), Instant::now());
    for call in 3.. {
        given.extend(given_by(&mut real, &OnePull { call, most: 1000, ..one_pull(1) }).0);
        if given.len() == 1201 {
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(20), "only {}", given.len());
    }
}
