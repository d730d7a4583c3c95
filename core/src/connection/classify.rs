//! From what the server says to [`ErrorKind`], and to what to do next.

use std::fmt;

use redis::{RedisError, ServerError};

use super::address::Address;
use super::trouble::{Away, Next, Trouble};
use crate::value::error::{Error, ErrorKind};

/// The server's own words, shortened, as the source of an error.
#[derive(Debug, Clone)]
pub(super) struct ServerSaid(String);

impl fmt::Display for ServerSaid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ServerSaid {}

impl ServerSaid {
    fn new(code: &str, detail: &str) -> Self {
        // "unknown command" repeats the arguments, and those may be a job's data.
        let detail = detail.split(", with args beginning with").next().unwrap_or_default();
        let mut text = format!("{code} {detail}");
        if let Some((at, _)) = text.char_indices().nth(300) {
            text.truncate(at);
        }
        Self(text)
    }
}

/// Classifies an error reply of `server`.
pub(super) fn server_error(said: &ServerError, server: &Address) -> Trouble {
    error_reply(said.code(), said.details().unwrap_or_default(), server)
}

/// True for the one error that only means "send me the whole text".
pub(super) fn is_unknown_script(said: &ServerError) -> bool {
    said.code() == "NOSCRIPT"
}

pub(super) fn error_reply(code: &str, detail: &str, server: &Address) -> Trouble {
    let source = ServerSaid::new(code, detail);
    let (code, detail) = inner_words(code, detail);
    let error = |kind, message: &str| Error::new(kind, format!("{server}: {message}")).caused_by(source.clone());
    match code {
        "MOVED" | "ASK" => {
            let mut words = detail.split_ascii_whitespace();
            let slot = words.next().and_then(|slot| slot.parse().ok()).unwrap_or_default();
            let to = words.next().and_then(|to| Address::from_redirect(to, server));
            Trouble::redirected(if code == "MOVED" { Next::Moved { slot, to } } else { Next::Ask { to } })
        }
        "TRYAGAIN" => Trouble::not_now(error(ErrorKind::Busy, "the queue's keys are being moved to another server")),
        "CLUSTERDOWN" => Trouble {
            // The server may just have lost its cluster: ask again who owns the slot.
            next: Next::AskAgain,
            ..Trouble::not_now(error(ErrorKind::Busy, "the cluster is down, or no server has this queue's slot"))
        },
        "LOADING" => Trouble::not_now(error(ErrorKind::Busy, "the server is still loading its data")),
        "BUSY" => Trouble::not_now(error(ErrorKind::Busy, "the server is busy with a script that takes too long")),
        "NOREPLICAS" => Trouble {
            // Perhaps its replica is the primary now.
            next: Next::AskAgain,
            outage: Some(Away::ForWrites),
            ..Trouble::not_now(error(
                ErrorKind::Busy,
                "the server refuses writes because too few replicas are connected (min-replicas-to-write)",
            ))
        },
        "MASTERDOWN" => {
            Trouble::wrong_server(error(ErrorKind::ReadOnly, "the server is a replica that has lost its primary"))
        }
        "READONLY" => Trouble::wrong_server(read_only(server).caused_by(source.clone())),
        "UNBLOCKED" => Trouble::wrong_server(error(ErrorKind::ReadOnly, "the server has just become a replica")),
        "NOAUTH" => Trouble::wrong_server(error(
            ErrorKind::AuthenticationFailed,
            "the server wants a password, and none was given: put it into the URL (redis://:password@host, or \
             redis://user:password@host)",
        )),
        "WRONGPASS" => Trouble::wrong_server(authentication(server).caused_by(source.clone())),
        "DENIED" => Trouble::refused(error(
            ErrorKind::PermissionDenied,
            "the server is in protected mode: set a password there and use it in the URL",
        )),
        "NOPERM" => Trouble {
            // Before any script has begun. What stops one in its middle, or is about this queue's keys, is not sent again.
            next: if is_of_calls(detail) { Next::Wait } else { Next::GiveUp },
            ..Trouble::writes_refused(permission(server, detail).caused_by(source.clone()))
        },
        "OOM" => Trouble::refused(error(
            ErrorKind::StorageFull,
            "the server has no memory left (maxmemory): nothing was stored; raise maxmemory or let workers catch up",
        )),
        "MISCONF" => Trouble::writes_refused(error(
            ErrorKind::StorageFull,
            "the server cannot write to its disk and refuses writes: nothing was stored; check its disk and log",
        )),
        "WRONGTYPE" => {
            Trouble::refused(error(ErrorKind::Corrupt, "a key of this queue holds something that duly did not write"))
        }
        "CROSSSLOT" => Trouble::refused(error(ErrorKind::Internal, "keys of one call are in two slots")),
        _ => plain_words(detail, server, &error),
    }
}

/// Errors without a code of their own that are refusals: what they say in small letters, their kind, and our words.
const PLAIN_REFUSALS: &[(&[&str], ErrorKind, &str)] = &[
    (
        &["but no password is set", "without any password configured"],
        ErrorKind::AuthenticationFailed,
        "the URL has a password, but the server wants none: leave it out",
    ),
    (
        &["wrong number of arguments for 'auth'"],
        ErrorKind::Unsupported,
        "the server is older than users (Redis 6): leave the user out of the URL, keep the password",
    ),
    (
        &["db index is out of range", "invalid db index", "select is not allowed in cluster"],
        ErrorKind::WrongServer,
        "the server has no database of this number",
    ),
    (
        &["waitaof cannot be used when"],
        ErrorKind::Unsupported,
        "the server has no append-only file to wait for: switch it on with `CONFIG SET appendonly yes`",
    ),
    (
        &["cluster support disabled"],
        ErrorKind::WrongServer,
        "the server is no cluster: use redis:// instead of redis+cluster://",
    ),
    (
        &["unknown command `cluster", "unknown command 'cluster"],
        ErrorKind::WrongServer,
        "this is no cluster: a sentinel's URL is redis+sentinel://host:port/master-name, a server's redis://",
    ),
    (
        &["unknown command `sentinel", "unknown command 'sentinel"],
        ErrorKind::WrongServer,
        "this is no sentinel: name the sentinels (usually port 26379), or use redis:// for the server itself",
    ),
    (&["unknown command", "unknown redis command", "unknown subcommand"], ErrorKind::Unsupported, ""),
    (
        &["invalid bulk length", "invalid multibulk length"],
        ErrorKind::TooLarge,
        "the server takes no value of this length (proto-max-bulk-len): raise that, or send less at once",
    ),
    (
        &["non local key"],
        ErrorKind::Busy,
        "the slot of these keys is moving to another server, and a script was stopped in its middle",
    ),
    (&["out of memory"], ErrorKind::StorageFull, "the server has no memory left: nothing was stored"),
];

/// Errors without a code of their own: only their wording tells them apart.
fn plain_words(detail: &str, server: &Address, error: &dyn Fn(ErrorKind, &str) -> Error) -> Trouble {
    let lower = detail.to_ascii_lowercase();
    let says = |words: &[&str]| words.iter().any(|words| lower.contains(words));
    if says(&["can't run this command", "can't access at least one of the keys", "no permissions"]) {
        // Redis 6 and 7.0 say it like this from inside a script, without NOPERM.
        return Trouble::writes_refused(permission(server, detail).caused_by(ServerSaid::new("ERR", detail)));
    }
    if says(&["max number of clients reached"]) {
        return Trouble {
            next: Next::Reconnect,
            ..Trouble::not_now(error(ErrorKind::Busy, "the server has too many clients"))
        };
    }
    if says(&["invalid password", "invalid username-password"]) {
        return Trouble::wrong_server(authentication(server));
    }
    if says(&["wait cannot be used with replica"]) {
        return Trouble::wrong_server(read_only(server));
    }
    let known = PLAIN_REFUSALS.iter().find(|(words, ..)| says(words));
    Trouble::refused(match known {
        Some((_, kind, "")) => error(*kind, &unknown_command(detail)),
        Some((_, kind, message)) => error(*kind, message),
        None => error(ErrorKind::Internal, "the server answered with an error that duly does not know"),
    })
}

fn unknown_command(detail: &str) -> String {
    let name = detail.split(['\'', '`']).nth(1).unwrap_or("a command");
    format!(
        "the server does not know the command {name}, which every server from Redis 5.0 on has: take `rename-command` for it out of \
         the server's configuration, if it is there"
    )
}

/// Redis 5 and 6 wrap what went wrong inside a script: `ERR Error running script (call to f_<sha>):
/// @user_script:3: WRONGTYPE Operation ...`. Redis 7 gives the inner error itself. Both become the inner one.
fn inner_words<'a>(code: &'a str, detail: &'a str) -> (&'a str, &'a str) {
    if code != "ERR" || !detail.starts_with("Error running script") {
        return (code, detail);
    }
    let mut inner = detail.split_once("): ").map_or(detail, |(_, inner)| inner);
    // The position comes once or twice: "@user_script:3: @user_script: 3: -OOM ...".
    while let Some(rest) = inner.strip_prefix("@user_script:").or_else(|| inner.strip_prefix("user_script:")) {
        let rest = rest.trim_start().trim_start_matches(|digit: char| digit.is_ascii_digit());
        inner = rest.strip_prefix(':').unwrap_or(rest).trim_start();
    }
    let inner = inner.strip_prefix('-').unwrap_or(inner);
    match inner.split_once(' ') {
        Some((word, rest)) if word.len() > 2 && word.bytes().all(|byte| byte.is_ascii_uppercase()) => (word, rest),
        _ => ("ERR", inner),
    }
}

pub(super) fn read_only(server: &Address) -> Error {
    Error::new(
        ErrorKind::ReadOnly,
        format!(
            "{server} is a read-only replica: connect to the primary, or let sentinels find it \
             (redis+sentinel://host:port/master-name)"
        ),
    )
}

fn authentication(server: &Address) -> Error {
    Error::new(
        ErrorKind::AuthenticationFailed,
        format!("{server} refused the user or the password: check the URL (redis://user:password@host)"),
    )
}

fn permission(server: &Address, detail: &str) -> Error {
    let detail = detail.split(" script: ").next().unwrap_or(detail).trim_end_matches('.');
    // "no permissions to run the 'blpop' command"
    let command = detail.split_once("the '").and_then(|(_, rest)| rest.split_once("' command"));
    let next = match command {
        Some((command, _)) => format!("add `+{command}` to the user with ACL SETUSER there"),
        // "can't access at least one of the keys", "No permissions to access a key"
        None if detail.to_ascii_lowercase().contains("key") => {
            "add `~duly:*` to the user with ACL SETUSER there (or what the client's prefix is, and a star)".to_owned()
        }
        None => "extend the user's ACL on the server".to_owned(),
    };
    Error::new(ErrorKind::PermissionDenied, format!("{server} does not permit it: {detail}; {next}"))
}

/// Is it about calls as such, which each new connection was permitted?
fn is_of_calls(detail: &str) -> bool {
    ["'evalsha' command", "'eval' command"].iter().any(|command| detail.contains(command))
}

/// True if the server refuses this very command to the user, and not the keys that it was given.
pub(super) fn is_denied(said: &ServerError, command: &str) -> bool {
    said.code() == "NOPERM"
        && said.details().is_some_and(|detail| detail.contains(&format!("'{}' command", command.to_ascii_lowercase())))
}

/// The user lacks these commands, as a new connection's check has found.
pub(super) fn denied(server: &Address, commands: &[String]) -> Trouble {
    let rules: Vec<String> = commands.iter().map(|command| format!("+{}", command.to_ascii_lowercase())).collect();
    let commands = commands.join(" ");
    Trouble::writes_refused(Error::new(
        ErrorKind::PermissionDenied,
        format!(
            "{server} does not let this user run {commands}, which duly needs: add `{}` to the user with \
             ACL SETUSER there; nothing was changed",
            rules.join(" ")
        ),
    ))
}

/// The server does not know these commands, as a new connection's check has found; every server that is new enough does.
pub(super) fn renamed(server: &Address, commands: &str) -> Trouble {
    Trouble::refused(Error::new(
        ErrorKind::Unsupported,
        format!(
            "{server} does not know {commands}, which duly's scripts need: take `rename-command` for it out of the server's \
             configuration; nothing was changed"
        ),
    ))
}

/// Classifies what went wrong with the connection itself after the call went out.
pub(super) fn broken_link(error: RedisError, server: &Address) -> Trouble {
    if error.kind() == redis::ErrorKind::Parse {
        // An answer that is no reply: the call ran or not, but this connection can no longer be understood.
        return Trouble::no_answer(
            Error::new(ErrorKind::Protocol, format!("{server} answered something that is not a valid reply"))
                .caused_by(error),
        );
    }
    Trouble::no_answer(
        Error::new(ErrorKind::Timeout, format!("the connection to {server} was lost before the answer came"))
            .caused_by(error),
    )
}
