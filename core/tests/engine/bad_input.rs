//! Input that must be refused before anything is sent, and stored bytes that nobody can read: each has its kind, its next
//! step, and no effect on anything else.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::support::verbs::{self, Verb, assert_kind, new_job};
use crate::support::{self, Server};
use duly::{Client, ErrorKind, Millis, NewJob, Outcome, ReserveOptions, RetryPolicy, State, When};

#[tokio::test]
async fn wrong_urls_are_refused_with_the_forms_that_are_right() {
    for url in [
        "http://user:s3cr3t@localhost",
        "localhost:6379",
        "redis://user:s3cr3t@localhost:99999",
        "redis://user:s3cr3t@localhost/zero",
        "redis://user:s3cr3t@localhost?no_such=1",
        "://",
        "redis://[::1",
    ] {
        let error = Client::builder().url(url).build().unwrap_err();
        assert_kind(&error, ErrorKind::InvalidArgument);
        assert!(error.to_string().len() > 20, "{url}: {error}");
    }
}

#[tokio::test]
async fn wrong_urls_hear_what_to_write_instead() {
    let says = |url: &str| Client::builder().url(url).build().unwrap_err().to_string();
    assert!(says("http://localhost").contains("embedded:"));
    for url in ["redis://user:s3c/r3t@localhost", "redis+cluster://:s3c/r3t@localhost", "unix://u:s3c/r3t@/sock"] {
        assert!(says(url).contains("%2F"), "{}", says(url));
    }
    assert!(Client::builder().url("unix:///a@b/sock").build().is_ok());
    assert!(Client::builder().url("redis+sentinel://host:26379/main@1").build().is_ok());
}

/// Somebody else wrote it, with microseconds where seconds belong, or worse.
#[tokio::test]
async fn a_job_of_the_far_future_has_no_age() {
    let server = Server::start();
    let queue = server.queue("orders");
    let id = queue.push(new_job("a")).await.unwrap().id().to_owned();
    for time in [u64::MAX / 1000 + 1, u64::MAX] {
        let record = format!("{{\"id\":\"{id}\",\"time\":{time},\"data\":1}}");
        server.redis_cli(&["HSET", "duly:{orders}:jobs", &id, &record]);
        let counts = queue.counts().await.unwrap();
        assert_eq!((counts.ready, counts.oldest_ready_age), (1, Some(Millis::ZERO)), "{time}");
    }
}

#[tokio::test]
async fn a_server_that_wants_a_password_says_so() {
    let server = Server::start();
    server.redis_cli(&["CONFIG", "SET", "requirepass", "right"]);
    let says = async |url: &str| {
        let error = Client::connect(url).await.unwrap_err();
        assert_kind(&error, ErrorKind::AuthenticationFailed);
        error.to_string()
    };
    let said = says(&server.url()).await;
    assert!(said.contains("wants a password") && said.contains("redis://:password@host"), "{said}");
    let said = says(&format!("redis+sentinel://127.0.0.1:{}/main", server.port())).await;
    assert!(said.contains("sentinel_password"), "{said}");
}

#[tokio::test]
async fn an_outage_is_told_in_one_sentence_and_read_by_people() {
    let server = Server::start();
    let queue = server.builder().deadline(Duration::from_secs(2)).build().unwrap().queue("orders").unwrap();
    queue.counts().await.unwrap();
    server.signal("-STOP");
    let error = queue.push(new_job("a")).await.unwrap_err();
    server.signal("-CONT");
    assert_eq!(error.to_string().matches("server or system said").count(), 0, "{error}");
    assert!(error.to_string().contains("did not answer in time"), "{error}");
    // What `fn main() -> Result<(), duly::Error>` prints.
    assert_eq!(format!("{error:?}"), format!("Timeout: {error}"));
}

#[tokio::test]
async fn a_second_ack_is_not_blamed_on_another_worker_alone() {
    let server = Server::start();
    let queue = server.queue("orders");
    queue.push(new_job("a")).await.unwrap();
    let job = queue.reserve(&ReserveOptions::new()).await.unwrap().remove(0);
    job.ack().await.unwrap();
    let error = job.ack().await.unwrap_err();
    assert_kind(&error, ErrorKind::LeaseLost);
    assert!(error.to_string().contains("settled already"), "{error}");
}

#[tokio::test]
async fn a_refused_connection_is_told_at_once_with_the_next_step() {
    let port = support::free_port();
    let started = Instant::now();
    let error = Client::connect(&format!("redis://user:s3cr3t@127.0.0.1:{port}")).await.unwrap_err();
    assert_kind(&error, ErrorKind::Unreachable);
    assert!(error.to_string().contains("embedded:"), "{error}");
    assert!(started.elapsed() < Duration::from_secs(10));
}

#[tokio::test]
async fn a_wrong_password_is_told_and_never_shown() {
    let server = Server::start();
    server.redis_cli(&["CONFIG", "SET", "requirepass", "right"]);
    for builder in [
        Client::builder().url(&format!("redis://:s3cr3t-wrong@127.0.0.1:{}", server.port())),
        server.builder().username("nobody").password("s3cr3t-wrong"),
        server.builder(),
    ] {
        let text = format!("{builder:?}");
        assert!(!text.contains("s3cr3t"), "{text}");
        let client = builder.build().unwrap();
        assert!(!format!("{client:?}").contains("s3cr3t"));
        let error = client.queue("orders").unwrap().push(new_job("a")).await.unwrap_err();
        assert_kind(&error, ErrorKind::AuthenticationFailed);
        assert!(error.to_string().contains("password"), "{error}");
    }
}

#[tokio::test]
async fn queue_names_and_prefixes_that_would_mix_up_keys_are_refused() {
    let server = Server::start();
    let client = server.client();
    let long = "q".repeat(129);
    for name in ["", &long, "a{b}", "{", "}", "a b", "a/b", "a\nb", "a\0b", "a\u{7f}", "caf\u{e9}", "*", "../a"] {
        assert_kind(&client.queue(name).unwrap_err(), ErrorKind::InvalidArgument);
        if !name.is_empty() {
            assert_kind(&server.builder().prefix(name).build().unwrap_err(), ErrorKind::InvalidArgument);
        }
    }
    assert!(client.queue(&"q".repeat(128)).is_ok());
}

#[tokio::test]
async fn times_that_are_none_are_refused() {
    for seconds in [-1.0, -0.001, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 100.1 * 365.0 * 86_400.0, 1e300] {
        assert_kind(&When::after_seconds(seconds).unwrap_err(), ErrorKind::InvalidArgument);
        assert_kind(&Millis::from_seconds(seconds).unwrap_err(), ErrorKind::InvalidArgument);
    }
    for seconds in [-1.0, f64::NAN, f64::INFINITY, 1e15] {
        assert_kind(&When::at_unix_seconds(seconds).unwrap_err(), ErrorKind::InvalidArgument);
    }
    let server = Server::start();
    let queue = server.queue("orders");
    let too_long = Duration::from_secs(101 * 365 * 86_400);
    for job in [new_job("a").delay(too_long), new_job("a").timeout(too_long), new_job("a").delay(Duration::MAX)] {
        assert_kind(&queue.push(job).await.unwrap_err(), ErrorKind::InvalidArgument);
    }
    // Times that skip the checks of their own constructors.
    let beyond = Millis::new(u64::MAX);
    for when in [When::After(beyond), When::At(beyond), When::After(Millis::new(1 << 53))] {
        assert_kind(&queue.push(new_job("a").when(when)).await.unwrap_err(), ErrorKind::InvalidArgument);
    }
    queue.push(new_job("a").delay(Duration::from_secs(60))).await.unwrap();
    let before = server.dump(":call:");
    for when in [When::After(beyond), When::At(beyond)] {
        assert_kind(&queue.reschedule("a", when).await.unwrap_err(), ErrorKind::InvalidArgument);
    }
    assert_kind(&queue.keep_failed(1, too_long).await.unwrap_err(), ErrorKind::InvalidArgument);
    assert_eq!(server.dump(":call:"), before);
}

#[tokio::test]
async fn ids_keys_names_headers_and_policies_out_of_bounds_are_refused() {
    let server = Server::start();
    let queue = server.queue("orders");
    let job = || NewJob::new(&"s3cr3t-canary").unwrap();
    let long = "k".repeat(5000);
    let many = (0..65).fold(job(), |job, n| job.header(format!("h{n}"), "v"));
    let list = RetryPolicy::List { delays: Vec::new() };
    let endless = RetryPolicy::Fixed { delay: Millis::new(u64::MAX) };
    let backwards =
        RetryPolicy::Exponential { base: Millis::new(1), factor: f64::NAN, cap: Millis::new(2), jitter: false };
    for bad in [
        job().id(""),
        job().id("a\nb"),
        job().id(&*long),
        job().id("a\tb"),
        job().key(""),
        job().key("a\0"),
        job().key(&*long),
        job().name(""),
        job().name("a\r\n"),
        job().name(&*long),
        job().header("", "v"),
        job().header("h", &*long),
        many,
        job().priority(10),
        job().priority(255),
        job().retry(list),
        job().retry(endless),
        job().retry(backwards),
    ] {
        assert_kind(&queue.push(bad).await.unwrap_err(), ErrorKind::InvalidArgument);
    }
    for (id, key) in [("", ""), ("a\n", "a\n"), (long.as_str(), long.as_str())] {
        assert_kind(&queue.cancel(id).await.unwrap_err(), ErrorKind::InvalidArgument);
        assert_kind(&queue.cancel_key(key).await.unwrap_err(), ErrorKind::InvalidArgument);
        assert_kind(&queue.find(id).await.unwrap_err(), ErrorKind::InvalidArgument);
        assert_kind(&queue.requeue(&[id.to_owned()]).await.unwrap_err(), ErrorKind::InvalidArgument);
    }
    assert!(server.dump("").is_empty(), "nothing was sent");
}

#[tokio::test]
async fn a_batch_with_one_bad_job_sends_none() {
    let server = Server::start();
    let queue = server.queue("orders");
    let error = queue.push_batch(vec![new_job("a"), new_job("b").priority(77)]).await.unwrap_err();
    assert_kind(&error, ErrorKind::InvalidArgument);
    let too_many = (0..1001).map(|_| NewJob::new(&1).unwrap()).collect();
    assert_kind(&queue.push_batch(too_many).await.unwrap_err(), ErrorKind::TooLarge);
    assert!(server.dump("").is_empty());
}

#[tokio::test]
async fn reserve_and_lease_arguments_are_bounded() {
    let server = Server::start();
    let queue = server.queue("orders");
    for options in [
        ReserveOptions::new().max(0),
        ReserveOptions::new().max(1001),
        ReserveOptions::new().max(usize::MAX),
        ReserveOptions::new().lease(Duration::ZERO),
        ReserveOptions::new().lease(Duration::MAX),
    ] {
        assert_kind(&queue.reserve(&options).await.unwrap_err(), ErrorKind::InvalidArgument);
    }
    let job = Verb::Extend.prepare(&queue).await.job.unwrap();
    assert_kind(&job.extend(Duration::ZERO).await.unwrap_err(), ErrorKind::InvalidArgument);
    assert_kind(&job.release(Duration::MAX).await.unwrap_err(), ErrorKind::InvalidArgument);
    assert_kind(&queue.cancel_only("a", &[]).await.unwrap_err(), ErrorKind::InvalidArgument);
    assert_kind(&queue.cancel_key_only("k", &[]).await.unwrap_err(), ErrorKind::InvalidArgument);
    // A wait of centuries is no overflow.
    queue.push(new_job("b")).await.unwrap();
    assert_eq!(queue.reserve(&ReserveOptions::new().wait(Duration::MAX)).await.unwrap().len(), 1);
}

#[tokio::test]
async fn data_over_the_limit_is_refused_before_it_is_sent_and_the_limit_can_be_set() {
    let server = Server::start();
    let queue = server.queue("orders");
    let of = |bytes: usize| NewJob::from_json(format!("\"{}\"", "s3cr3t".repeat(bytes / 6))).unwrap();
    let error = queue.push(of(1_048_576 + 10)).await.unwrap_err();
    assert_kind(&error, ErrorKind::TooLarge);
    assert!(error.to_string().contains("max_data_bytes"), "{error}");
    queue.push(of(1_048_576 - 10)).await.unwrap();
    let wide = server.builder().max_data_bytes(12 << 20).build().unwrap().queue("wide").unwrap();
    wide.push(of(10 << 20)).await.unwrap();
    wide.push(of(10 << 20)).await.unwrap();
    let jobs = wide.reserve(&ReserveOptions::new().max(10)).await.unwrap();
    assert_eq!(jobs.len(), 1, "a reply is bounded by bytes");
    assert!(jobs[0].envelope.data.as_bytes().len() > 10_000_000);
    assert!(!format!("{:?}", jobs[0]).contains("s3cr3t"), "Debug shows no data");
}

#[tokio::test]
async fn data_that_json_cannot_say_is_refused() {
    assert_kind(&NewJob::new(&f64::NAN).unwrap_err(), ErrorKind::InvalidArgument);
    assert_kind(&NewJob::new(&[1.0, f64::INFINITY]).unwrap_err(), ErrorKind::InvalidArgument);
    assert_kind(&NewJob::new(&HashMap::from([(vec![1], "s3cr3t")])).unwrap_err(), ErrorKind::InvalidArgument);
    for json in [&b"{\"s3cr3t\":"[..], b"", b"NaN", b"\"s3cr3t\xff\"", b"'s3cr3t'", b"{} {}", b"[1,]", b"\xed\xa0\x80"]
    {
        assert_kind(&NewJob::from_json(json).unwrap_err(), ErrorKind::InvalidArgument);
    }
    let deep = "[".repeat(100_000);
    assert_kind(&NewJob::from_json(deep).unwrap_err(), ErrorKind::InvalidArgument);
}

#[tokio::test]
async fn error_texts_of_any_size_and_content_are_kept_up_to_the_limit() {
    let server = Server::start();
    let queue = server.queue("orders");
    let text = format!("\r\n;1;2;\0\t{}", "\u{8ba2}".repeat(10_000));
    queue.push(new_job("a")).await.unwrap();
    let job = queue.reserve(&ReserveOptions::new()).await.unwrap().remove(0);
    job.settle(Outcome::FailNow, &text).await.unwrap();
    let kept = queue.find("a").await.unwrap().unwrap().job.envelope.error;
    assert!(text.starts_with(&kept) && kept.len() > 8180 && kept.len() <= 8192, "{}", kept.len());
}

/// Writes what duly never would, behind its back.
async fn spoil(server: &Server, queue: &duly::Queue, records: &[(&str, &[u8])]) {
    for (id, _) in records {
        queue.push(new_job(id)).await.unwrap();
    }
    let client = redis::Client::open(server.url()).unwrap();
    let mut connection = client.get_connection().unwrap();
    for (id, record) in records {
        let key = format!("duly:{{{}}}:jobs", queue.name());
        redis::cmd("HSET").arg(key).arg(id).arg(*record).exec(&mut connection).unwrap();
    }
}

#[tokio::test]
async fn undecodable_records_go_to_failed_with_the_reason_and_hold_up_nobody() {
    let server = Server::start();
    let queue = server.queue("orders");
    let records: [(&str, &[u8]); 9] = [
        ("empty", b""),
        ("no-json", b"s3cr3t"),
        ("no-data", b"{}"),
        ("array", b"[]"),
        ("torn", br#"{"data":{"s3cr3t":"#),
        ("not-utf8", b"{\"data\":\"s3cr3t\xff\"}"),
        ("bad-routing", b"5;x;0;0;{\"data\":1}"),
        ("long-key", b"5;5;999;0;k{\"data\":1}"),
        ("level-far", b"77;5;0;0;{\"data\":1}"),
    ];
    spoil(&server, &queue, &records).await;
    queue.push(new_job("good")).await.unwrap();
    let jobs = queue.reserve(&ReserveOptions::new()).await.unwrap();
    assert_eq!(jobs.iter().map(duly::Job::id).collect::<Vec<_>>(), ["good"]);
    jobs[0].ack().await.unwrap();
    let failed = queue.peek(State::Failed, 0, 100).await.unwrap();
    assert_eq!(failed.len(), records.len());
    for job in &failed {
        let reason = job.undecodable.as_ref().unwrap();
        assert!(job.envelope.error.contains("undecodable"), "{}", job.envelope.error);
        assert!(!reason.contains("s3cr3t") && !job.envelope.error.contains("s3cr3t"), "{reason}");
        assert_eq!(queue.find(&job.envelope.id).await.unwrap().unwrap().job.state, State::Failed);
    }
    // The bytes are kept, and can be asked for again after somebody mended them, or thrown away.
    let bytes = server.redis_cli(&["HGET", "duly:{orders}:jobs", "no-json"]);
    assert_eq!(bytes.trim(), "s3cr3t");
    server.redis_cli(&["HSET", "duly:{orders}:jobs", "no-json", r#"{"data":"mended"}"#]);
    queue.requeue(&["no-json".to_owned()]).await.unwrap();
    assert_eq!(queue.reserve(&ReserveOptions::new()).await.unwrap()[0].envelope.data.as_str(), "\"mended\"");
    assert!(queue.cancel("torn").await.unwrap().is_some());
    assert_eq!(queue.purge(State::Failed).await.unwrap(), records.len() as u64 - 2);
}

#[tokio::test]
async fn an_undecodable_note_beside_a_record_holds_up_nobody() {
    let server = Server::start();
    let queue = server.queue("orders");
    queue.push(new_job("a").retry(verbs::at_once())).await.unwrap();
    queue.reserve(&ReserveOptions::new()).await.unwrap()[0].fail("no").await.unwrap();
    queue.push(new_job("good")).await.unwrap();
    server.redis_cli(&["HSET", "duly:{orders}:returned", "a", "nonsense"]);
    let jobs = queue.reserve(&ReserveOptions::new().max(10)).await.unwrap();
    assert_eq!(jobs.iter().map(duly::Job::id).collect::<Vec<_>>(), ["good"]);
    assert_eq!(queue.find("a").await.unwrap().unwrap().job.state, State::Failed);
}

#[tokio::test]
async fn an_id_without_a_record_is_skipped_in_every_state() {
    let server = Server::start();
    let queue = server.queue("orders");
    for id in ["ready", "delayed", "reserved", "good"] {
        queue.push(new_job(id)).await.unwrap();
        if id == "delayed" {
            queue.reschedule(id, When::After(Millis::new(1))).await.unwrap();
        }
        if id == "reserved" {
            let options = ReserveOptions::new().max(10).lease(Duration::from_millis(1));
            for job in queue.reserve(&options).await.unwrap() {
                if job.id() != "reserved" {
                    job.release(Duration::ZERO).await.unwrap();
                }
            }
        }
    }
    server.redis_cli(&["HDEL", "duly:{orders}:jobs", "ready", "delayed", "reserved"]);
    let mut seen = Vec::new();
    let options = ReserveOptions::new().max(10).wait(Duration::from_secs(2));
    while seen.is_empty() {
        seen.extend(queue.reserve(&options).await.unwrap().iter().map(|job| job.id().to_owned()));
    }
    assert_eq!(seen, ["good"]);
    support::eventually("what has no record is gone", || async {
        queue.reserve(&ReserveOptions::new()).await.unwrap().is_empty() && {
            let counts = queue.counts().await.unwrap();
            (counts.delayed, counts.ready, counts.reserved) == (0, 0, 1)
        }
    })
    .await;
    for id in ["ready", "delayed", "reserved"] {
        assert!(queue.find(id).await.unwrap().is_none());
        assert!(queue.cancel(id).await.unwrap().is_none());
        queue.push(new_job(id)).await.unwrap();
    }
}

#[tokio::test]
async fn a_queue_in_a_newer_format_refuses_every_verb_and_is_not_touched() {
    let server = Server::start();
    let mut prepared = Vec::new();
    for verb in verbs::ALL {
        let queue = server.queue(&format!("{verb:?}"));
        prepared.push(verb.prepare(&queue).await);
        server.redis_cli(&["HSET", &format!("duly:{{{verb:?}}}:meta"), "format", "3"]);
    }
    let before = server.dump("");
    for (verb, prepared) in verbs::ALL.iter().zip(&prepared) {
        let outcome = verb.run(&server.queue(&format!("{verb:?}")), prepared).await;
        let error = outcome.expect_err(&format!("{verb:?}"));
        assert_kind(&error, ErrorKind::FormatTooNew);
        assert!(error.to_string().contains("upgrade duly"), "{error}");
    }
    assert_eq!(server.dump(""), before);
}

#[tokio::test]
async fn a_record_in_a_newer_format_is_left_to_newer_workers() {
    let server = Server::start();
    let queue = server.queue("orders");
    spoil(&server, &queue, &[("new", br#"{"v":3,"data":"s3cr3t"}"#)]).await;
    assert!(queue.reserve(&ReserveOptions::new()).await.unwrap().is_empty());
    let delayed = queue.peek(State::Delayed, 0, 10).await.unwrap();
    let why = delayed[0].undecodable.as_deref().unwrap();
    assert!(why.contains("has format 3") && !why.contains("s3cr3t"), "{why}");
    assert_eq!((delayed[0].returns, delayed[0].package()), (0, br#"{"v":3,"data":"s3cr3t"}"#.to_vec()));
}

#[test]
fn the_largest_data_is_one_byte_to_what_every_language_can_say() {
    for (bytes, is_right) in [(0, false), (1, true), ((1 << 53) - 1, true), (1 << 53, false)] {
        let built = duly::Client::builder().max_data_bytes(bytes).build();
        assert_eq!(built.is_ok(), is_right, "{bytes}");
        let kind = built.err().map(|error| error.kind());
        assert!(kind.is_none_or(|kind| kind == duly::ErrorKind::InvalidArgument), "{bytes}");
    }
}
