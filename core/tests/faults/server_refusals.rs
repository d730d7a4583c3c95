//! Servers that say no: the kind of error says why, names the next step, and nothing is done by half.

use std::time::{Duration, Instant};

use crate::support::verbs::{self, Verb, assert_kind, new_job, summary};
use crate::support::{self, Server};
use duly::{Durability, ErrorKind, LockOptions, Queue, ReserveOptions};

/// Every command that a script calls.
const NEEDED: [&str; 31] = [
    "DEL",
    "EXISTS",
    "GET",
    "HDEL",
    "HEXISTS",
    "HGET",
    "HGETALL",
    "HINCRBY",
    "HLEN",
    "HMGET",
    "HSET",
    "HSTRLEN",
    "HVALS",
    "LINDEX",
    "LLEN",
    "LPUSH",
    "LRANGE",
    "LREM",
    "LTRIM",
    "PEXPIRE",
    "RPUSH",
    "SET",
    "TIME",
    "ZADD",
    "ZCARD",
    "ZCOUNT",
    "ZRANGE",
    "ZRANGEBYSCORE",
    "ZREM",
    "ZREMRANGEBYRANK",
    "ZSCORE",
];

/// A server that was restarted knows no script, and what waits for a replica behind its refusal would wait twice.
#[tokio::test]
async fn a_durable_push_to_a_server_that_does_not_know_the_script_waits_once() {
    let server = Server::start();
    let deadline = Duration::from_secs(1);
    let client = server.builder().deadline(deadline).fail_fast(true).build().unwrap();
    let queue = client.queue("orders").unwrap();
    let durable = |id: &str| new_job(id).durability(Durability::Replicas { count: 1 });
    for known in [false, true] {
        if !known {
            server.redis_cli(&["script", "flush"]);
        }
        let error = queue.push(durable(&format!("known: {known}"))).await.unwrap_err();
        assert_kind(&error, ErrorKind::NotDurable);
        assert!(error.job_id().is_some());
        assert_eq!(queue.counts().await.unwrap().ready, 1 + u64::from(known), "the server is there");
    }
}

/// By the server's `timeout`, a balancer, or a restart. Nobody reads the sockets of a blocking client between its calls.
#[test]
fn a_refusal_behind_a_connection_that_was_closed_in_a_pause_leaves_no_doubt() {
    let server = Server::start();
    let client = duly::blocking::Client::new(server.builder()).unwrap();
    let queue = client.queue("orders").unwrap();
    queue.push(new_job("first"), &mut duly::blocking::Uninterrupted).unwrap();
    server.redis_cli(&["client", "kill", "type", "normal"]);
    server.redis_cli(&["config", "set", "maxmemory", "1mb"]);
    std::thread::sleep(Duration::from_millis(100)); // the pause
    let error = queue.push(new_job("refused"), &mut duly::blocking::Uninterrupted).unwrap_err();
    assert_kind(&error, ErrorKind::StorageFull);
}

#[tokio::test]
async fn each_missing_permission_is_named_and_nothing_is_done_by_half() {
    let server = Server::start();
    let mut prepared = Vec::new();
    for verb in verbs::ALL {
        prepared.push(verb.prepare(&server.queue(&format!("{verb:?}"))).await);
    }
    let before = server.dump("");
    for command in NEEDED.iter().chain(&["EVALSHA", "EVAL"]) {
        let user = format!("no-{command}");
        server.redis_cli(&["ACL", "SETUSER", &user, "on", ">s3cr3t", "~duly:*", "+@all", &format!("-{command}")]);
        let client = server.builder().username(&user).password("s3cr3t").build().unwrap();
        for (verb, prepared) in verbs::ALL.iter().zip(&prepared) {
            let error = verb.run(&client.queue(&format!("{verb:?}")).unwrap(), prepared).await.unwrap_err();
            assert_kind(&error, ErrorKind::PermissionDenied);
            let rule = format!("`+{}`", command.to_lowercase());
            assert!(error.to_string().contains(&rule), "the next step of {verb:?} without {command}: {error}");
        }
        assert_eq!(server.dump(""), before, "without {command}");
    }
}

#[tokio::test]
async fn who_may_not_wait_hears_which_command_is_missing() {
    let server = Server::start();
    server.redis_cli(&["ACL", "SETUSER", "u", "on", ">s3cr3t", "~duly:*", "+@all", "-blpop"]);
    let queue = server.builder().username("u").password("s3cr3t").build().unwrap().queue("orders").unwrap();
    let wait = ReserveOptions::new().wait(Duration::from_secs(5));
    let error = queue.reserve(&wait).await.unwrap_err();
    assert_kind(&error, ErrorKind::PermissionDenied);
    assert!(error.to_string().contains("`+blpop`"), "{error}");
    assert_eq!((error.operation(), error.queue()), (Some("reserve"), Some("orders")));
}

#[tokio::test]
async fn a_user_with_just_the_commands_that_are_needed_can_do_everything() {
    let server = Server::start();
    let mut rules =
        vec!["ACL", "SETUSER", "worker", "on", ">s3cr3t", "~duly:*", "-@all", "+EVALSHA", "+EVAL", "+BLPOP"];
    let allowed: Vec<String> = NEEDED.iter().map(|command| format!("+{command}")).collect();
    rules.extend(allowed.iter().map(String::as_str));
    server.redis_cli(&rules);
    let client = server.builder().username("worker").password("s3cr3t").build().unwrap();
    for verb in verbs::ALL {
        let queue = client.queue(&format!("{verb:?}")).unwrap();
        let prepared = verb.prepare(&queue).await;
        let outcome = verb.run(&queue, &prepared).await;
        if *verb == Verb::Delete {
            // Only who deletes queues needs `UNLINK`.
            assert_kind(&outcome.unwrap_err(), ErrorKind::PermissionDenied);
            assert_eq!(queue.counts().await.unwrap().ready, 1);
        } else {
            outcome.unwrap();
        }
        summary(&queue).await;
    }
    let queue = client.queue("idle").unwrap();
    assert!(queue.reserve(&ReserveOptions::new().wait(Duration::from_millis(20))).await.unwrap().is_empty());
    let lock = client.lock("a", &LockOptions::new()).await.unwrap();
    let wait = LockOptions::new().wait(Duration::from_millis(20));
    assert_eq!(client.lock("a", &wait).await.unwrap_err().kind(), ErrorKind::Locked);
    assert!(lock.release().await.unwrap());
}

#[tokio::test]
async fn keys_outside_of_the_users_pattern_are_refused_before_anything_is_written() {
    let server = Server::start();
    server.redis_cli(&["ACL", "SETUSER", "u", "on", ">s3cr3t", "~other:*", "+@all"]);
    let queue = server.builder().username("u").password("s3cr3t").build().unwrap().queue("orders").unwrap();
    assert_kind(&queue.push(new_job("a")).await.unwrap_err(), ErrorKind::PermissionDenied);
    assert!(server.dump("").is_empty());
}

#[tokio::test]
async fn a_read_only_replica_refuses_every_verb() {
    let primary = Server::start();
    let replica = Server::start_with(&["--replicaof", "127.0.0.1", &primary.port().to_string()]);
    let queue = replica.queue("orders");
    let error = queue.push(new_job("a")).await.unwrap_err();
    assert_kind(&error, ErrorKind::ReadOnly);
    assert!(error.to_string().contains("connect to the primary"), "{error}");
    assert_kind(&queue.reserve(&ReserveOptions::new()).await.unwrap_err(), ErrorKind::ReadOnly);
}

#[tokio::test]
async fn a_primary_that_became_a_replica_is_left_alone_and_loses_nothing() {
    let server = Server::start();
    let client = server.builder().deadline(Duration::from_secs(2)).fail_fast(false).build().unwrap();
    let queue = client.queue("orders").unwrap();
    queue.push(new_job("a")).await.unwrap();
    let before = server.dump("");
    server.redis_cli(&["REPLICAOF", "127.0.0.1", "1"]);
    let started = Instant::now();
    let pushed = queue.push(new_job("b")).await.unwrap_err();
    let reserved = queue.reserve(&ReserveOptions::new()).await.unwrap_err();
    for error in [pushed, reserved] {
        // A last attempt that is cut short by the deadline may have been executed.
        assert!(matches!(error.kind(), ErrorKind::ReadOnly | ErrorKind::Timeout), "{error}");
    }
    assert!(started.elapsed() < Duration::from_secs(25));
    assert_eq!(server.dump(""), before);
    server.redis_cli(&["REPLICAOF", "NO", "ONE"]);
    assert_eq!(queue.reserve(&ReserveOptions::new()).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_loading_server_is_waited_for_and_then_busy() {
    let mut server = Server::start();
    server.queue("orders").push_many((0..300).map(|n| new_job(&n.to_string())), |_| {}).await.unwrap();
    // Large ones, because it answers once in a kilobyte; and many, because it takes its time for each: half a minute in all,
    // if nothing makes it hurry.
    server.eval("for i = 1, 3000 do redis.call('SET', 'k' .. i, string.rep('x', 1100)) end return {}", &[]);
    server.redis_cli(&["CONFIG", "SET", "rdbcompression", "no"]);
    server.redis_cli(&["SAVE"]);
    server.kill();
    server.restart_with(&["--key-load-delay", "10000", "--loading-process-events-interval-bytes", "1024"]);
    support::eventually("the server loads", || async { server.redis_cli(&["PING"]).contains("LOADING") }).await;
    let hasty = server.builder().deadline(Duration::from_secs(2)).build().unwrap();
    let error = hasty.queue("orders").unwrap().push(new_job("new")).await.unwrap_err();
    assert_kind(&error, ErrorKind::Busy);
    assert!(error.is_transient());
    let client = server.builder().deadline(Duration::from_secs(60)).build().unwrap();
    let patient = client.queue("orders").unwrap();
    let push = async { patient.push(new_job("new")).await.unwrap() };
    tokio::join!(push, async { server.redis_cli(&["CONFIG", "SET", "key-load-delay", "0"]) });
    assert_eq!(patient.counts().await.unwrap().ready, 301);
}

#[tokio::test]
async fn without_memory_nothing_is_stored_and_workers_can_still_finish() {
    let server = Server::start();
    let mut prepared = Vec::new();
    for verb in verbs::ALL {
        let queue = server.queue(&format!("{verb:?}"));
        prepared.push((queue.clone(), verb.prepare(&queue).await));
    }
    let undisturbed = Server::start();
    server.redis_cli(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
    server.redis_cli(&["CONFIG", "SET", "maxmemory", "1"]);
    for (verb, (queue, prepared)) in verbs::ALL.iter().zip(&prepared) {
        // What wakes waiters of a result is gone after a minute.
        let stored = || server.dump(":call:").into_iter().filter(|key| !key.contains("}:done:")).collect::<Vec<_>>();
        let before = stored();
        match verb.run(queue, prepared).await {
            Ok(answer) => {
                assert!(!verb.makes_a_full_server_grow(), "{verb:?} was taken");
                let control = undisturbed.queue(&format!("{verb:?}"));
                let prepared = verb.prepare(&control).await;
                let expected = verb.run(&control, &prepared).await.unwrap();
                // The job is done, and its result is not kept.
                let expected = if *verb == Verb::AckWithResult { "[true] Err(NoResult)" } else { &expected };
                assert_eq!(answer, expected, "{verb:?}");
                assert_eq!(summary(queue).await, summary(&control).await, "{verb:?}");
            }
            Err(error) => {
                assert!(!verb.lets_workers_finish(), "{verb:?}: {error}");
                assert_kind(&error, ErrorKind::StorageFull);
                assert!(error.to_string().contains("maxmemory"), "the next step: {error}");
                assert_eq!(stored(), before, "{verb:?}");
            }
        }
    }
    for verb in [Verb::Push, Verb::PushDelayed, Verb::PushKeyed, Verb::PushBatch] {
        let queue = server.queue("pushed");
        assert_kind(&verb.run(&queue, &verbs::Prepared::default()).await.unwrap_err(), ErrorKind::StorageFull);
        assert_eq!(queue.counts().await.unwrap().ready, 0);
    }
}

#[tokio::test]
async fn without_memory_a_queue_with_limits_of_an_earlier_format_is_drained() {
    let server = Server::start();
    let queue = server.queue("orders");
    queue.push(new_job("a")).await.unwrap();
    server.redis_cli(&["HSET", "duly:{orders}:meta", "format", "1", "limits", "2;3;10000000"]);
    server.redis_cli(&["CONFIG", "SET", "maxmemory", "1"]);
    let jobs = server.queue("orders").reserve(&ReserveOptions::new()).await.unwrap();
    jobs[0].ack().await.unwrap();
    assert_eq!(queue.limits().await.unwrap().concurrency, Some(2));
}

#[tokio::test]
async fn without_memory_what_is_due_and_what_was_lost_is_still_handed_out() {
    let server = Server::start();
    let queue = server.queue("orders");
    let reclaimed = server.queue("reclaimed");
    Verb::Promote.prepare(&queue).await;
    Verb::Reclaim.prepare(&reclaimed).await;
    server.redis_cli(&["CONFIG", "SET", "maxmemory", "1"]);
    for queue in [queue, reclaimed] {
        let jobs = queue.reserve(&ReserveOptions::new()).await.unwrap();
        assert_eq!(jobs.len(), 1, "{queue:?}");
        jobs[0].ack().await.unwrap();
        assert!(queue.reserve(&ReserveOptions::new().wait(Duration::from_millis(5))).await.unwrap().is_empty());
    }
}

#[tokio::test]
async fn a_server_that_may_evict_jobs_is_refused_unless_that_is_allowed() {
    let server = Server::start_with(&["--maxmemory", "100mb", "--maxmemory-policy", "volatile-lru"]);
    let error = server.queue("orders").push(new_job("a")).await.unwrap_err();
    assert_kind(&error, ErrorKind::EvictionPolicy);
    assert!(error.to_string().contains("noeviction") && error.to_string().contains("allow_eviction"), "{error}");
    assert!(server.dump("").is_empty());
    let allowed = server.builder().allow_eviction(true).build().unwrap().queue("orders").unwrap();
    allowed.push(new_job("a")).await.unwrap();
}

/// The keys that a queue has once every kind of job is in it.
const KEYS: [&str; 13] = [
    "jobs", "delayed", "reserved", "leases", "failed", "returned", "keys", "stale", "meta", "ready:5", "ready:6",
    "ready:7", "call",
];

/// Something of everything: ready in two levels, delayed, reserved, failed, came back, cancelled. What is ready goes behind the job of
/// the verb.
async fn fill(queue: &Queue) {
    let hour = Duration::from_secs(3600);
    queue.push(new_job("reserved").key("k-reserved")).await.unwrap();
    queue.reserve(&ReserveOptions::new().lease(hour)).await.unwrap();
    queue.push(new_job("failed").max_retries(0)).await.unwrap();
    queue.reserve(&ReserveOptions::new()).await.unwrap()[0].fail("no").await.unwrap();
    queue.push(new_job("back").retry(verbs::at_once()).priority(6)).await.unwrap();
    queue.reserve(&ReserveOptions::new()).await.unwrap()[0].fail("no").await.unwrap();
    queue.push(new_job("delayed").delay(hour).key("k-delayed")).await.unwrap();
    queue.push(new_job("cancelled").priority(6)).await.unwrap();
    queue.cancel("cancelled").await.unwrap().unwrap();
    queue.push(new_job("keyed").key("k-ready").priority(6)).await.unwrap();
    queue.push(new_job("last").priority(7)).await.unwrap();
}

/// A delayed job that is due and a lease that is over, for reserve, promote and reclaim.
async fn make_due(queue: &Queue) {
    queue.push(new_job("lost").priority(0)).await.unwrap();
    queue.reserve(&ReserveOptions::new().lease(Duration::from_millis(1))).await.unwrap();
    queue.push(new_job("due").delay(Duration::from_millis(1)).priority(6)).await.unwrap();
    support::eventually("it is due", || async {
        let counts = queue.counts().await.unwrap();
        counts.next_due_in == Some(duly::Millis::ZERO) && counts.next_lease_end_in == Some(duly::Millis::ZERO)
    })
    .await;
}

#[tokio::test]
async fn a_foreign_type_under_any_key_is_named_and_loses_nothing() {
    let server = Server::start();
    let mut faults = Vec::new();
    let mut refused = 0;
    let looks_for_due = [Verb::Reserve, Verb::Promote, Verb::Reclaim, Verb::ReclaimForGood];
    let runs = verbs::ALL.iter().map(|verb| (verb, false)).chain(looks_for_due.iter().map(|verb| (verb, true)));
    for (verb, due) in runs {
        let name = format!("{verb:?}-{due}");
        let queue = server.queue(&name);
        fill(&queue).await;
        let mut prepared = verb.prepare(&queue).await;
        if due {
            make_due(&queue).await;
        }
        let counts = queue.counts().await.unwrap();
        prepared.jobs = counts.delayed + counts.ready + counts.reserved + counts.failed;
        forget(&server);
        save(&server);
        let whole = server.dump("saved:");
        for key in KEYS {
            let pattern = format!("duly:{{{name}}}:{key}{}", if key == "call" { ":*" } else { "" });
            let found = server.eval("return redis.call('KEYS', ARGV[1])", &[&pattern]);
            // Not every verb has a job of its own that is ready.
            let Some(full) = found.first() else { continue };
            let put_away = "redis.call('RENAME', ARGV[1], 'put-away') redis.call('SET', ARGV[1], 'foreign') return {}";
            server.eval(put_away, &[full]);
            let before = server.dump("saved:");
            let outcome = verb.run(&queue, &prepared).await;
            let after = server.dump("saved:");
            server.eval("redis.call('RENAME', 'put-away', ARGV[1]) return {}", &[full]);
            if let Err(error) = outcome {
                refused += 1;
                if error.kind() != ErrorKind::Corrupt || !error.to_string().contains(full) {
                    faults.push(format!("{verb:?} with {key}: {error}"));
                }
                verbs::assert_keeps_secrets(&error);
                if before != after {
                    let changed: Vec<_> = before.iter().filter(|line| !after.contains(line)).collect();
                    faults.push(format!("{verb:?} with {key} (due: {due}) was done by half: {changed:?}"));
                }
            }
            if server.dump("saved:") != whole {
                // It did not need the key and was done. For the next key, a fresh start.
                restore(&server);
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(refused > 250, "{refused}");
}

/// Forgets the copies of another queue, and that queue.
fn forget(server: &Server) {
    server.eval("for _, key in ipairs(redis.call('KEYS', 'saved:*')) do redis.call('DEL', key, string.sub(key, 7)) end return {}", &[]);
}

/// Keeps a copy of every key, to which [`restore`] goes back.
fn save(server: &Server) {
    server.eval(
        "for _, key in ipairs(redis.call('KEYS', 'duly:*')) do \
         redis.call('RESTORE', 'saved:' .. key, 0, redis.call('DUMP', key), 'REPLACE') end return {}",
        &[],
    );
}

fn restore(server: &Server) {
    server.eval(
        "for _, key in ipairs(redis.call('KEYS', 'duly:*')) do redis.call('DEL', key) end
         for _, key in ipairs(redis.call('KEYS', 'saved:*')) do redis.call('RESTORE', string.sub(key, 7), 0, redis.call('DUMP', key)) end
         return {}",
        &[],
    );
}

#[tokio::test]
async fn a_wait_names_a_foreign_key_and_counts_do_without_foreign_totals() {
    let server = Server::start();
    let queue = server.queue("orders");
    server.redis_cli(&["SET", "duly:{orders}:wake", "x"]);
    let error = queue.reserve(&ReserveOptions::new().wait(Duration::from_secs(5))).await.unwrap_err();
    assert_kind(&error, ErrorKind::Corrupt);
    assert!(error.to_string().contains("'duly:{orders}:wake'"), "{error}");
}

#[tokio::test]
async fn a_user_without_key_patterns_hears_which_one_to_add() {
    let server = Server::start();
    server.redis_cli(&["ACL", "SETUSER", "u", "on", ">s3cr3t", "+@all"]);
    let queue = server.builder().username("u").password("s3cr3t").build().unwrap().queue("orders").unwrap();
    let error = queue.push(new_job("a")).await.unwrap_err();
    assert_kind(&error, ErrorKind::PermissionDenied);
    assert!(error.to_string().contains("~duly:*"), "{error}");
}

#[tokio::test]
async fn all_missing_permissions_are_named_at_once() {
    let server = Server::start();
    let mut rules: Vec<String> =
        ["ACL", "SETUSER", "u", "on", ">s3cr3t", "~duly:*", "-@all", "+EVALSHA", "+EVAL", "+BLPOP"]
            .map(String::from)
            .into();
    let missing = ["LPUSH", "RPUSH", "LTRIM", "ZADD"];
    rules.extend(NEEDED.iter().filter(|name| !missing.contains(name)).map(|name| format!("+{name}")));
    for also_missing in [&[][..], &["LREM"], &["LREM", "PEXPIRE"]] {
        rules.extend(also_missing.iter().map(|name| format!("-{name}")));
        server.redis_cli(&rules.iter().map(String::as_str).collect::<Vec<_>>());
        let queue = server.builder().username("u").password("s3cr3t").build().unwrap().queue("orders").unwrap();
        let error = queue.push(new_job("a")).await.unwrap_err();
        assert_kind(&error, ErrorKind::PermissionDenied);
        for name in missing.iter().chain(also_missing) {
            assert!(error.to_string().contains(&format!("+{}", name.to_lowercase())), "{name}: {error}");
        }
        assert!(server.dump("").is_empty(), "{:?}", server.dump(""));
    }
}

/// One delayed job that is due, for a `reserve` that must promote it.
async fn due_job(server: &Server, prefix: &str) -> Queue {
    let queue = server.builder().prefix(prefix).build().unwrap().queue("orders").unwrap();
    queue.push(new_job("due").delay(Duration::from_millis(1))).await.unwrap();
    support::eventually("it is due", || async {
        queue.counts().await.unwrap().next_due_in == Some(duly::Millis::ZERO)
    })
    .await;
    queue
}

#[tokio::test]
async fn missing_permissions_are_found_whatever_the_prefix_and_the_pattern() {
    let server = Server::start();
    for (prefix, pattern) in [("shop:", "~shop:*"), ("duly:", "~duly:{orders}:*"), ("", "~{orders}:*")] {
        let queue = due_job(&server, prefix).await;
        server.redis_cli(&["ACL", "SETUSER", "u", "reset", "on", ">s3cr3t", pattern, "+@all", "-rpush"]);
        let client = || server.builder().prefix(prefix).username("u").password("s3cr3t").build().unwrap();
        let error = client().queue("orders").unwrap().reserve(&ReserveOptions::new()).await.unwrap_err();
        assert_kind(&error, ErrorKind::PermissionDenied);
        assert!(error.to_string().contains("`+rpush`"), "{pattern}: {error}");
        assert_eq!(queue.counts().await.unwrap().delayed, 1, "{pattern}: nothing was moved");

        server.redis_cli(&["ACL", "SETUSER", "u", "+rpush"]);
        assert_eq!(
            client().queue("orders").unwrap().reserve(&ReserveOptions::new()).await.unwrap().len(),
            1,
            "{pattern}"
        );
    }
}

#[tokio::test]
async fn the_check_of_permissions_stays_within_the_prefix_and_spares_what_is_there() {
    let server = Server::start();
    server.redis_cli(&["RPUSH", "permissions", "m", "mine"]);
    server.redis_cli(&["RPUSH", "duly:permissions", "m", "mine"]);
    let before = server.dump("");
    server.redis_cli(&["ACL", "SETUSER", "u", "on", ">s3cr3t", "~shop:*", "+@all"]);
    for (prefix, user) in [("shop:", Some("u")), ("duly:", None), ("", None)] {
        let builder = server.builder().prefix(prefix);
        let builder = user.map_or(builder.clone(), |user| builder.username(user).password("s3cr3t"));
        assert_eq!(builder.build().unwrap().queue("orders").unwrap().counts().await.unwrap().ready, 0);
    }
    assert_eq!(server.dump(""), before);
    assert_eq!(server.redis_cli(&["ACL", "LOG"]).trim(), "", "no key that this user may not touch");
}

#[tokio::test]
async fn a_server_that_loads_is_asked_for_permissions_when_it_has_loaded() {
    let mut server = Server::start();
    due_job(&server, "duly:").await;
    server.eval("for i = 1, 1500 do redis.call('SET', 'k' .. i, string.rep('x', 200)) end return {}", &[]);
    server.redis_cli(&["CONFIG", "SET", "rdbcompression", "no"]);
    server.redis_cli(&["SAVE"]);
    server.kill();
    let slowly = ["--key-load-delay", "1000", "--loading-process-events-interval-bytes", "1024"];
    let user = ["--user", "u", "on", ">s3cr3t", "~*", "+@all", "-rpush"];
    server.restart_with(&[&slowly[..], &user[..]].concat());
    support::eventually("the server loads", || async { server.redis_cli(&["PING"]).contains("LOADING") }).await;
    let queue = server.builder().username("u").password("s3cr3t").build().unwrap().queue("orders").unwrap();
    let error = queue.reserve(&ReserveOptions::new()).await.unwrap_err();
    assert_kind(&error, ErrorKind::PermissionDenied);
    assert!(error.to_string().contains("`+rpush`"), "{error}");
    assert_eq!(server.queue("orders").counts().await.unwrap().delayed, 1);
}

#[tokio::test]
async fn a_renamed_command_is_named_before_anything_is_stored() {
    let server = Server::start_with(&["--rename-command", "LPUSH", "", "--rename-command", "ZADD", "ZSECRET"]);
    let error = server.queue("orders").push(new_job("a")).await.unwrap_err();
    assert_kind(&error, ErrorKind::Unsupported);
    assert!(error.to_string().contains("ZADD LPUSH") && error.to_string().contains("rename-command"), "{error}");
    assert!(server.dump("").is_empty());
}

#[tokio::test]
async fn a_renamed_command_of_the_client_itself_is_no_sign_of_an_old_server() {
    for command in ["EVALSHA", "EVAL", "BLPOP"] {
        let server = Server::start_with(&["--rename-command", command, ""]);
        let wait = ReserveOptions::new().wait(Duration::from_secs(5));
        let error = server.queue("orders").reserve(&wait).await.unwrap_err();
        assert_kind(&error, ErrorKind::Unsupported);
        let text = error.to_string();
        assert!(text.contains(command) && text.contains("rename-command"), "{text}");
    }
}

#[tokio::test]
async fn a_permission_to_wake_that_was_taken_away_fails_no_push() {
    let server = Server::start();
    server.redis_cli(&["ACL", "SETUSER", "u", "on", ">s3cr3t", "~duly:*", "+@all"]);
    let queue = server.builder().username("u").password("s3cr3t").build().unwrap().queue("orders").unwrap();
    queue.push(new_job("a")).await.unwrap();
    server.redis_cli(&["ACL", "SETUSER", "u", "-lpush"]);
    server.redis_cli(&["DEL", "duly:{orders}:wake"]);
    queue.push(new_job("b")).await.unwrap();
    assert_eq!(queue.counts().await.unwrap().ready, 2);
}
