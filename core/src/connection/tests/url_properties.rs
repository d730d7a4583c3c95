//! Whatever is given as a URL: it is read or refused, and no error repeats any of it.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use crate::checks::words;
use crate::properties::{damaged, holds, soup};

const WORDS: &[&str] = &[
    "redis",
    "rediss",
    "valkey",
    "unix",
    "+sentinel",
    "+cluster",
    "://",
    ":",
    "/",
    "//",
    "@",
    "?",
    "#",
    "&",
    "=",
    ",",
    "%",
    "%2F",
    "%zz",
    "%C3",
    "[",
    "]",
    "::1",
    "[::1]",
    "h",
    "u",
    "s3cr3t",
    "6379",
    "0",
    "65536",
    "99999999999999999999",
    "-1",
    "db",
    "db=1",
    "password=",
    "sentinel_password=",
    "user=",
    "ca=",
    "allow_eviction",
    "insecure",
    " ",
    "\n",
    "\0",
    "\u{8ba2}",
];

/// A URL and, if it was written as it should be, its password.
fn url() -> BoxedStrategy<(String, Option<String>)> {
    let scheme = select(
        &[
            "redis",
            "rediss",
            "valkey",
            "unix",
            "redis+sentinel",
            "rediss+sentinel",
            "redis+cluster",
            "valkeys+cluster",
            "http",
        ][..],
    );
    let password = "[a:/?#@%&=\\[\\],;\u{e9}]{0,3}s3cr3t[a:/?#@%&=\\[\\],;\u{e9}]{0,3}";
    let hosts = select(&["h", "h", "h", "h:7000", "a:1,b:2", "[::1]:7000", "[::1", "", "h:x", "h:0", " h "][..]);
    let path = select(&["", "", "", "/", "/main", "/3", "/main", "/main/2", "/run/s", "/x/y/z", "/%zz"][..]);
    let query = select(
        &[
            "",
            "",
            "",
            "?",
            "?db=2",
            "?allow_eviction=1",
            "?ca=/x",
            "?password=s3cr3t",
            "?sentinel_password=s3cr3t",
            "?s3cr3t",
            "#s3cr3t",
        ][..],
    );
    (scheme, any::<bool>(), any::<bool>(), password, hosts, path, query)
        .prop_map(|(scheme, has_user, is_escaped, password, hosts, path, query)| {
            let user = if has_user { "user" } else { "" };
            let written = if is_escaped { escaped(&password) } else { password.clone() };
            (format!("{scheme}://{user}:{written}@{hosts}{path}{query}"), is_escaped.then_some(password))
        })
        .boxed()
}

fn escaped(text: &str) -> String {
    let escape = |byte: u8| match byte {
        b'a'..=b'z' | b'0'..=b'9' => char::from(byte).to_string(),
        other => format!("%{other:02X}"),
    };
    text.bytes().map(escape).collect()
}

#[test]
fn a_url_is_read_or_refused_and_no_password_is_shown() {
    let lossy = |bytes: Vec<u8>| (String::from_utf8_lossy(&bytes).into_owned(), None);
    let texts = prop_oneof![
        3 => url(),
        2 => damaged(url().prop_map(|(url, _)| url.into_bytes()), WORDS).prop_map(lossy),
        2 => soup(WORDS, 12).prop_map(lossy),
        1 => vec(any::<u8>(), 0..40).prop_map(lossy),
    ];
    let sometimes = ["it was read", "its password was read", "it was refused"];
    holds(&texts, &sometimes, |(url, password), seen| {
        words::url(&url, password.as_deref(), seen);
        Ok(())
    });
}
