//! What a server can refuse, and how fast a new client hears of it.

use std::time::{Duration, Instant};

use super::fixture::{
    AT_ONCE, TestServer, bulk, connect, eventually, free_port, run_set_once, run_text, set_once, set_once_call,
};
use crate::connection::{Connection, Durability, Settings};
use crate::value::error::ErrorKind;

#[tokio::test]
async fn refused_port_and_unknown_host_are_reported_at_once() {
    let started = Instant::now();
    let error = run_set_once(&connect(&format!("redis://127.0.0.1:{}", free_port())), "k", "v").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreachable);
    assert!(error.to_string().contains("embedded:") && error.to_string().contains("DULY_URL"), "{error}");
    let error = run_set_once(&connect("unix:///no/such.sock"), "k", "v").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreachable);
    let error = run_set_once(&connect("redis://no-such-host.invalid"), "k", "v").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreachable, "{error}");
    assert!(error.to_string().contains("no-such-host.invalid"), "{error}");
    let seeds = format!("redis+cluster://127.0.0.1:{}", free_port());
    assert_eq!(run_set_once(&connect(&seeds), "k", "v").await.unwrap_err().kind(), ErrorKind::Unreachable);
    let sentinels = format!("redis+sentinel://127.0.0.1:{}/m", free_port());
    assert_eq!(run_set_once(&connect(&sentinels), "k", "v").await.unwrap_err().kind(), ErrorKind::Unreachable);
    assert!(started.elapsed() < AT_ONCE, "{:?}", started.elapsed());
}

#[tokio::test]
async fn wrong_password_is_reported_at_once_and_never_shown() {
    let server = TestServer::start(&["--requirepass", "right"]);
    for url in [
        format!("redis://:c4n4ry@127.0.0.1:{}", server.port),
        format!("redis://nobody:c4n4ry@127.0.0.1:{}", server.port),
        server.url(),
    ] {
        let started = Instant::now();
        let error = run_set_once(&connect(&url), "k", "v").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AuthenticationFailed, "{error}");
        assert!(!format!("{error} {error:?}").contains("c4n4ry"));
        assert!(started.elapsed() < AT_ONCE);
    }
    let url = format!("redis://:right@127.0.0.1:{}/1", server.port);
    assert_eq!(run_set_once(&connect(&url), "k", "v").await.unwrap(), bulk("v"));
    // A password that the server does not want is a mistake too.
    let open = TestServer::start(&[]);
    let error = run_set_once(&connect(&format!("redis://:x@127.0.0.1:{}", open.port)), "k", "v").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AuthenticationFailed, "{error}");
    let error = run_set_once(&connect(&format!("{}/99", open.url())), "k", "v").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WrongServer, "{error}");
}

#[tokio::test]
async fn missing_permission_names_the_command() {
    let server = TestServer::start(&[]);
    server.cli(&["ACL", "SETUSER", "noeval", "on", ">p", "~*", "+@all", "-eval", "-evalsha", "-info"]);
    server.cli(&["ACL", "SETUSER", "noset", "on", ">p", "~*", "+@all", "-set"]);
    server.cli(&["ACL", "SETUSER", "keys", "on", ">p", "~mine*", "+@all"]);
    let url = |user: &str| format!("redis://{user}:p@127.0.0.1:{}", server.port);
    let error = run_set_once(&connect(&url("noeval")), "k", "v").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
    assert!(error.to_string().contains("`+evalsha +eval`"), "{error}");
    let error = run_set_once(&connect(&url("noset")), "k", "v").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
    let error = run_set_once(&connect(&url("keys")), "k", "v").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
    assert!(error.to_string().contains("key"), "{error}");
}

#[tokio::test]
async fn replica_is_refused_at_once() {
    let primary = TestServer::start(&[]);
    let replica = TestServer::start(&["--replicaof", "127.0.0.1", &primary.port.to_string()]);
    let started = Instant::now();
    let error = run_set_once(&connect(&replica.url()), "k", "v").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ReadOnly);
    assert!(error.to_string().contains("redis+sentinel://"), "{error}");
    assert!(started.elapsed() < AT_ONCE);
}

#[tokio::test]
async fn evicting_server_is_refused_unless_allowed() {
    let server = TestServer::start(&["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"]);
    let error = run_set_once(&connect(&server.url()), "k", "v").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::EvictionPolicy);
    assert!(error.to_string().contains("CONFIG SET maxmemory-policy noeviction"), "{error}");
    let allowed = connect(&format!("{}?allow_eviction=1", server.url()));
    assert_eq!(run_set_once(&allowed, "k", "v").await.unwrap(), bulk("v"));
    let mut settings = Settings::new(&server.url());
    settings.allow_eviction = true;
    assert_eq!(run_set_once(&Connection::new(settings).unwrap(), "k", "v").await.unwrap(), bulk("v"));
}

#[tokio::test]
async fn full_memory_foreign_keys_and_unknown_commands_have_their_kinds() {
    let server = TestServer::start(&[]);
    let connection = connect(&server.url());
    let fill = "return redis.call('SET', KEYS[1], 'x')";
    run_text(&connection, fill, "a").await.unwrap();
    server.cli(&["CONFIG", "SET", "maxmemory", "1"]);
    let error = run_text(&connection, fill, "a").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StorageFull, "{error}");
    server.cli(&["CONFIG", "SET", "maxmemory", "0"]);
    let error = run_text(&connection, "return redis.call('LPUSH', KEYS[1], 'x')", "a").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    let error = run_text(&connection, "return redis.call('NOSUCH', KEYS[1])", "a").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    let mut cmd = redis::cmd("NOSUCH");
    cmd.arg("secret data");
    let error = connection.command("check", 0, cmd).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(!format!("{error:?}").contains("secret data"), "{error:?}");
    assert_eq!(error.operation(), Some("check"));
}

#[tokio::test]
async fn too_few_replicas_is_ridden_out_and_then_busy() {
    let server = TestServer::start(&["--min-replicas-to-write", "1"]);
    let mut settings = Settings::new(&server.url());
    settings.deadline = Duration::from_secs(1);
    // The last attempt is answered, however late.
    settings.patient = true;
    let connection = Connection::new(settings).unwrap();
    let answer = run_set_once(&connection, "k", "v").await;
    if server.version() < (6, 2) {
        // Before 6.2 the server lets scripts write all the same.
        assert_eq!(answer.unwrap(), bulk("v"));
    } else {
        let error = answer.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
    }
}

#[tokio::test]
async fn durability_is_confirmed_or_refused() {
    let primary = TestServer::start(&[]);
    let connection = connect(&primary.url());
    let script = set_once();
    let call = set_once_call(&script, "k", "v");
    let one = Durability::Replicas { count: 1, timeout: Duration::from_millis(50) };
    let error = connection.run_durably("push", &call, one).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotDurable, "{error}");
    assert!(error.to_string().contains("0 of 1 replicas") && error.to_string().contains("the job is in"), "{error}");
    assert_eq!(primary.cli(&["GET", "k:runs"]), "1", "it was pushed once, and not sent again");

    let fsync = Durability::Fsync { timeout: Duration::from_millis(50) };
    let other = set_once_call(&script, "never", "v");
    let error = connection.run_durably("push", &other, fsync).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert_eq!(primary.cli(&["EXISTS", "never"]), "0", "nothing was pushed");

    let _replica = TestServer::start(&["--replicaof", "127.0.0.1", &primary.port.to_string()]);
    eventually("the replica is in sync", || primary.cli(&["INFO", "replication"]).contains("state=online"));
    let patient = Durability::Replicas { count: 1, timeout: Duration::from_secs(5) };
    assert_eq!(connection.run_durably("push", &call, patient).await.unwrap(), bulk("v"));
    assert_eq!(connection.run_durably("push", &call, Durability::None).await.unwrap(), bulk("v"));
}

#[tokio::test]
async fn where_nobody_may_wait_for_replicas_the_job_is_in_all_the_same() {
    let server = TestServer::start(&[]);
    server.cli(&["ACL", "SETUSER", "hasty", "on", ">p", "~*", "&*", "+@all", "-wait"]);
    let connection = connect(&server.url().replace("redis://", "redis://hasty:p@"));
    let script = set_once();
    let call = set_once_call(&script, "k", "v");
    let one = Durability::Replicas { count: 1, timeout: Duration::from_millis(50) };
    let error = connection.run_durably("push", &call, one).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotDurable, "{error}");
    assert!(error.to_string().contains("the job is in") && error.to_string().contains("'wait'"), "{error}");
    assert_eq!(server.cli(&["GET", "k:runs"]), "1");
}

#[tokio::test]
async fn a_durable_push_to_a_frozen_server_waits_for_no_replica() {
    let server = TestServer::start(&[]);
    let mut settings = Settings::new(&server.url());
    settings.deadline = Duration::from_secs(1);
    let connection = Connection::new(settings).unwrap();
    let script = set_once();
    let call = set_once_call(&script, "k", "v");
    assert_eq!(connection.run_durably("push", &call, Durability::None).await.unwrap(), bulk("v"));
    server.signal("-STOP");
    let one = Durability::Replicas { count: 1, timeout: Duration::from_secs(60) };
    let error = connection.run_durably("push", &call, one).await.unwrap_err();
    server.signal("-CONT");
    assert!(error.to_string().contains("for 1 s") || error.to_string().contains("within 1 s"), "{error}");
}

#[tokio::test]
async fn the_disk_confirms_where_the_server_can_say_so() {
    let server = TestServer::start(&["--appendonly", "yes", "--appendfsync", "everysec"]);
    let connection = connect(&server.url());
    let script = set_once();
    let call = set_once_call(&script, "k", "v");
    let answer = connection.run_durably("push", &call, Durability::Fsync { timeout: Duration::from_secs(10) }).await;
    if server.version() < (7, 2) {
        assert_eq!(answer.unwrap_err().kind(), ErrorKind::Unsupported);
        assert_eq!(server.cli(&["EXISTS", "k"]), "0", "nothing was pushed");
    } else {
        assert_eq!(answer.unwrap(), bulk("v"));
        // Its disk is asked once a second, so it cannot have this one within a millisecond.
        let other = set_once_call(&script, "other", "v");
        let hasty = Durability::Fsync { timeout: Duration::from_millis(1) };
        let error = connection.run_durably("push", &other, hasty).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotDurable, "{error}");
        assert!(error.to_string().contains("disk") && error.to_string().contains("the job is in"), "{error}");
        assert_eq!(server.cli(&["GET", "other"]), "v");
    }
}

#[test]
fn inner_errors_are_found_in_the_words_of_redis_5_and_6() {
    use crate::connection::address::Address;
    use crate::connection::classify::error_reply;
    let server = Address::Tcp { host: "h".into(), port: 1 };
    let kind = |code: &str, detail: &str| error_reply(code, detail, &server).error.kind();
    let wrapped =
        |inner: &str| kind("ERR", &format!("Error running script (call to f_6b1bf486): @user_script:3: {inner}"));
    assert_eq!(wrapped("WRONGTYPE Operation against a key holding the wrong kind of value"), ErrorKind::Corrupt);
    assert_eq!(
        wrapped("@user_script: 3: -OOM command not allowed when used memory > 'maxmemory'."),
        ErrorKind::StorageFull
    );
    assert_eq!(wrapped("@user_script: 3: Unknown Redis command called from Lua script"), ErrorKind::Unsupported);
    assert_eq!(
        wrapped("The user executing the script can't run this command or subcommand"),
        ErrorKind::PermissionDenied
    );
    assert_eq!(kind("OOM", "command not allowed, script: ab, on @user_script:1."), ErrorKind::StorageFull);
    assert_eq!(kind("MISCONF", "Errors writing to the AOF file: No space left on device"), ErrorKind::StorageFull);
    assert_eq!(kind("BUSY", "Redis is busy running a script."), ErrorKind::Busy);
    assert_eq!(kind("LOADING", "Redis is loading the dataset in memory"), ErrorKind::Busy);
    assert_eq!(kind("ERR", "max number of clients reached"), ErrorKind::Busy);
    assert_eq!(kind("ERR", "Protocol error: invalid bulk length"), ErrorKind::TooLarge);
    assert_eq!(kind("ERR", "invalid password"), ErrorKind::AuthenticationFailed);
}
