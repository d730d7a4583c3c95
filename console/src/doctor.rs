//! `duly doctor`: what would go wrong at night.
//!
//! | file | duty |
//! |---|---|
//! | `finding.rs` | what a check came to |
//! | `server.rs` | the checks of one server |
//! | `queues.rs` | the checks of queues |

mod finding;
mod queues;
mod server;

use std::time::Duration;

use clap::Args;
use duly::{Client, Error, ErrorKind, ServerView};
use serde_json::json;
use tokio::time::timeout;

use self::finding::Level::{Note, Ok as Fine, Problem, Warning};
pub(crate) use self::finding::{Finding, Level};
pub(crate) use self::server::bytes;
use crate::show::{Shown, printable};
use crate::target::Target;
use crate::{DONE, FAILED, Output};

/// A server that does not answer is reported after this long.
const DEADLINE: Duration = Duration::from_secs(5);

/// What makes a job late, unless it is said.
const LATE: Duration = Duration::from_secs(60);
/// How many queues are checked for the page, and for how long.
const MOST_QUEUES: usize = 500;
const LOOK: Duration = Duration::from_secs(8);

const ACL_PAGE: &str = "see docs/keys-and-scripts.md, EVALSHA, for a user (ACL) that may do all";

/// Check the server and the queues: what would lose, refuse or delay jobs, and what to do about it
#[derive(Debug, Args)]
#[command(after_help = "\
It changes nothing. The status is 1 if there are warnings or problems, and 0 if there are notes at most. `duly audit QUEUE` checks the jobs of a \
queue, which this does not.")]
pub(crate) struct Doctor {
    #[command(flatten)]
    target: Target,
    /// Jobs are late if they wait for so long
    #[arg(long, value_parser = crate::when::span, default_value = "1m", value_name = "SPAN")]
    late: Duration,
    #[command(flatten)]
    shown: Shown,
}

impl Doctor {
    pub(crate) async fn run(&self, mut output: Output<'_>) -> Result<u8, Error> {
        // A server that evicts is one of the findings.
        let client = self.target.builder().deadline(DEADLINE).fail_fast(false).allow_eviction(true).build()?;
        let findings = match client.servers().await {
            Ok(servers) => self.examine(&client, &servers).await,
            Err(error) => vec![no_connection(&error)],
        };
        let worst = findings.iter().map(|finding| finding.level).max().unwrap_or(Fine);
        if self.shown.json {
            output.json(&json!({"worst": worst, "findings": findings}))?;
        } else {
            show(&findings, &mut output);
        }
        Ok(if worst >= Warning { FAILED } else { DONE })
    }

    async fn examine(&self, client: &Client, servers: &[ServerView]) -> Vec<Finding> {
        let mut findings = vec![connected()];
        findings.extend(of_servers(servers).await);
        findings.extend(queues::examine(client, self.late, usize::MAX).await);
        // The last one, as it takes its time where writes are refused.
        findings.push(permissions(client).await);
        findings
    }
}

/// All checks, for the page: of many queues, or slow servers, those for which there is time.
///
/// Errors: the server cannot be asked.
pub(crate) async fn findings(client: &Client) -> Result<Vec<Finding>, Error> {
    let servers = client.servers().await?;
    let mut findings = vec![connected()];
    findings.extend(in_time("latency", of_servers(&servers)).await);
    findings.extend(in_time("queues", queues::examine(client, LATE, MOST_QUEUES)).await);
    findings.push(permissions(client).await);
    Ok(findings)
}

/// What the checks came to, or that they took too long for a page.
async fn in_time(check: &'static str, checks: impl Future<Output = Vec<Finding>>) -> Vec<Finding> {
    timeout(LOOK, checks).await.unwrap_or_else(|_| {
        let what = format!("these checks did not end within {} s", LOOK.as_secs());
        vec![Finding::new(Warning, check, what, "run `duly doctor`, which takes its time")]
    })
}

fn connected() -> Finding {
    Finding::ok("connection", "the server answers, and its user may run duly's scripts")
}

async fn of_servers(servers: &[ServerView]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for server in servers {
        let of_server = server::examine(server).await;
        let is_one = servers.len() == 1;
        findings.extend(of_server.into_iter().map(|one| if is_one { one } else { one.about(server.address()) }));
    }
    findings
}

async fn permissions(client: &Client) -> Finding {
    match client.check_permissions().await {
        Ok(()) => Finding::ok("permissions", "the user may list, use and delete queues under this prefix"),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            let what = format!("some calls will be refused: {error}");
            Finding::new(Problem, "permissions", what, ACL_PAGE)
        }
        Err(error) => {
            let advice = server::advice_for(&error, "run this again when the server takes writes");
            Finding::new(Note, "permissions", format!("they could not be tried: {error}"), advice)
        }
    }
}

/// The messages say what to do.
fn no_connection(error: &Error) -> Finding {
    let advice = match error.kind() {
        ErrorKind::ReadOnly => "use the URL of the primary, or redis+sentinel://, which finds it",
        ErrorKind::AuthenticationFailed => "set user and password in DULY_URL, as the server's ACL has them",
        ErrorKind::PermissionDenied => ACL_PAGE,
        _ => "nothing else can be checked until that works",
    };
    Finding::new(Problem, "connection", error.to_string(), advice)
}

fn show(findings: &[Finding], output: &mut Output<'_>) {
    for Finding { level, check, about, what, advice } in findings {
        let about = about.as_ref().map_or(String::new(), |about| format!("{}: ", printable(about)));
        // Whole: what to do is at the end of a message.
        let what: String = crate::show::escaped(what.chars());
        output.line(&format!("{:<8} {check:<16} {about}{what}", level.as_str()));
        if !advice.is_empty() {
            output.line(&format!("{:<8} {:<16} -> {advice}", "", ""));
        }
    }
    let count = |level: Level| {
        let count = findings.iter().filter(|finding| finding.level == level).count();
        format!("{count} {}{}", level.as_str(), if count == 1 { "" } else { "s" })
    };
    let (problems, warnings, notes) = (count(Problem), count(Warning), count(Note));
    output.line(&format!("{problems}, {warnings}, {notes}; `duly audit QUEUE` checks the jobs of a queue"));
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    /// The commands that stand in backticks in these texts, each line of a text behind the other, without comments.
    fn named(source: &str) -> Vec<String> {
        let code: Vec<_> = source.lines().map(str::trim_start).filter(|line| !line.starts_with("//")).collect();
        let text = code.join("\n").replace("\\\n", "").replace("\\\"", "\"");
        text.split('`').skip(1).step_by(2).filter(|named| named.starts_with("duly ")).map(str::to_owned).collect()
    }

    #[test]
    fn every_command_that_is_advised_can_be_run() {
        let texts = [include_str!("doctor.rs"), include_str!("doctor/queues.rs"), include_str!("doctor/server.rs")];
        let own = texts[0].split("#[cfg(test)]").next().unwrap();
        let commands: Vec<_> = [own, texts[1], texts[2]].into_iter().flat_map(named).collect();
        assert!(commands.len() >= 10, "{commands:?}");
        for command in commands {
            let parsed = crate::Arguments::try_parse_from(command.split_whitespace());
            assert!(parsed.is_ok(), "{command}: {}", parsed.unwrap_err());
        }
    }
}
