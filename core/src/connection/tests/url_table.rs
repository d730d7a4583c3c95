use std::time::Duration;

use crate::connection::address::Address;
use crate::connection::url::{Layout, ParsedUrl};
use crate::connection::{Connection, Secret, Settings};
use crate::value::error::ErrorKind;

fn tcp(host: &str, port: u16) -> Address {
    Address::Tcp { host: host.to_owned(), port }
}

#[test]
fn accepted_forms() {
    let table = [
        ("redis://h", Layout::Single(tcp("h", 6379)), false, 0),
        ("redis://h:7000/3", Layout::Single(tcp("h", 7000)), false, 3),
        ("valkey://h/", Layout::Single(tcp("h", 6379)), false, 0),
        ("redis://[::1]:7000/3", Layout::Single(tcp("::1", 7000)), false, 3),
        ("redis://u:p@[fe80::1]", Layout::Single(tcp("fe80::1", 6379)), false, 0),
        ("rediss://h:1", Layout::Single(tcp("h", 1)), true, 0),
        ("unix:///run/my%20redis.sock?db=2", Layout::Single(Address::Unix("/run/my redis.sock".into())), false, 2),
        ("redis+unix:///s", Layout::Single(Address::Unix("/s".into())), false, 0),
        (
            "redis+sentinel://u:p@a:1,b/main/4?sentinel_password=x",
            Layout::Sentinel { sentinels: vec![tcp("a", 1), tcp("b", 26379)], master_name: "main".into() },
            false,
            4,
        ),
        (
            "rediss+sentinel://a/main",
            Layout::Sentinel { sentinels: vec![tcp("a", 26379)], master_name: "main".into() },
            true,
            0,
        ),
        ("redis+cluster://a:1,[::2]:2", Layout::Cluster { seeds: vec![tcp("a", 1), tcp("::2", 2)] }, false, 0),
        ("rediss+cluster://a/0", Layout::Cluster { seeds: vec![tcp("a", 6379)] }, true, 0),
    ];
    for (url, layout, tls, db) in table {
        let parsed = ParsedUrl::parse(url).unwrap_or_else(|error| panic!("{url}: {error}"));
        assert_eq!((parsed.layout, parsed.tls, parsed.db), (layout, tls, db), "{url}");
    }
}

#[test]
fn credentials_are_percent_decoded() {
    let parsed = ParsedUrl::parse("redis://us%40er:p%3Aa%2Fs%25%C3%A9@h").unwrap();
    assert_eq!(parsed.credentials.username.as_deref(), Some("us@er"));
    assert_eq!(parsed.credentials.password, Some(Secret::new("p:a/s%é")));
    let parsed = ParsedUrl::parse("redis://:only@h").unwrap();
    assert_eq!((parsed.credentials.username, parsed.credentials.password), (None, Some(Secret::new("only"))));
}

#[test]
fn refused_forms_name_the_accepted_ones() {
    for url in [
        "",
        "h:6379",
        "http://h",
        "redis://",
        "redis://:6379",
        "redis://h:0",
        "redis://h:x",
        "redis://h:99999",
        "redis://h/x",
        "redis://h/-1",
        "redis://a,b",
        "redis://::1",
        "redis://[::1",
        "redis://h?nonsense=1",
        "redis://h?ca=/x",
        "redis://u:p%zz@h",
        "redis://u:p%@h",
        "unix://",
        "unix://host/s",
        "unix:///s?db=x",
        "redis+sentinel://a",
        "redis+sentinel://a/",
        "redis+sentinel:///main",
        "redis+cluster://a/1",
        "redis+cluster://",
        "redis://h?allow_eviction=maybe",
        "redis://h#x",
    ] {
        let error = ParsedUrl::parse(url).expect_err(url);
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{url}");
        assert!(error.to_string().contains("redis://[user[:password]@]host"), "{url}: {error}");
    }
    let error = ParsedUrl::parse("rediss://h#insecure").unwrap_err();
    assert!(error.to_string().contains("always verifies"), "{error}");
}

#[test]
fn settings_win_over_the_url_and_are_checked() {
    let mut settings = Settings::new("redis://u:from-url@h");
    settings.password = Some(Secret::new("from-settings"));
    assert_eq!(settings.resolve().unwrap().credentials.password, Some(Secret::new("from-settings")));

    let kind = |settings: Settings| Connection::new(settings).err().map(|error| error.kind());
    assert_eq!(kind(Settings::new("redis://user-alone@h")), Some(ErrorKind::InvalidArgument));
    assert_eq!(kind(Settings::new("rediss://h?ca=/no/such/file")), Some(ErrorKind::InvalidArgument));
    let mut settings = Settings::new("redis://h");
    settings.client_name = "two words".into();
    assert_eq!(kind(settings), Some(ErrorKind::InvalidArgument));
}

#[test]
fn a_deadline_is_shorter_than_the_servers_memory_of_a_call() {
    let with = |seconds| Settings { deadline: Duration::from_secs(seconds), ..Settings::new("redis://h") };
    assert!(with(600).resolve().is_ok());
    for refused in [0, 601] {
        assert_eq!(with(refused).resolve().err().map(|error| error.kind()), Some(ErrorKind::InvalidArgument));
    }
}

#[test]
fn a_password_is_never_shown() {
    const CANARY: &str = "c4n4ry";
    // Also where a forgotten escape puts the password into the port, the host, the path, the query or the fragment.
    for url in [
        "redis://u:c4n4ry@h",
        "redis://u:c4n4ry@",
        "redis://u:c4n4ry",
        "redis://u:x/c4n4ry@h",
        "redis://u:x?c4n4ry@h",
        "redis://u:x#c4n4ry@h",
        "redis://u:c4n4ry@h:x",
        "redis://u:c4n4ry@h/x",
        "redis://u:c4n4ry%zz@h",
        "redis://u:x@c4n4ry/y@h",
        "rediss://u:x@c4n4ry/y@h:6379",
        "redis+sentinel://u:x@c4n4ry/y@h:26379",
        "redis+sentinel://u:x@c4n4ry/y@h:26379/main",
        "redis+cluster://u:x@c4n4ry/y@h:7000",
        "c4n4ry://h",
        "c4n4ry",
        "redis+sentinel://h/m?sentinel_password=c4n4ry",
        "unix:///s?password=c4n4ry",
    ] {
        let settings = Settings::new(url);
        assert!(!format!("{settings:?} {settings:#?}").contains(CANARY), "{url}");
        match settings.resolve() {
            Ok(parsed) => assert!(!format!("{parsed:?}").contains(CANARY), "{url}"),
            Err(error) => assert!(!format!("{error} {error:?}").contains(CANARY), "{url}: {error}"),
        }
    }
}
