//! The checks of one server. Each judges what the server said of itself, and says nothing of what it did not say.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use duly::{Error, Millis, ServerView};

use super::finding::Level::{Note, Problem, Warning};
use super::finding::{Finding, Level};

/// How often a round trip is measured.
const PINGS: usize = 50;
/// Round trips that are slower than this, half of them or any, make workers slow.
const SLOW: Duration = Duration::from_millis(10);
const SLOWEST: Duration = Duration::from_millis(250);
/// How far the clocks of this host and the server may be apart.
const CLOCKS_APART_MS: i64 = 5_000;
/// A replica that was silent for so long is behind.
const LAG_S: u64 = 5;
/// How much of a bound may be used, in percent.
const MUCH: u64 = 80;
const NEARLY_ALL: u64 = 95;

/// The settings that the checks need.
const SETTINGS: [&str; 4] = ["save", "appendfsync", "min-replicas-to-write", "maxclients"];

type Fields = BTreeMap<String, String>;

/// What a server said.
#[derive(Debug, Default)]
struct Facts {
    info: Fields,
    settings: Fields,
    cluster: Fields,
    /// Sorted.
    pings: Vec<Duration>,
    /// How far the server's clock is ahead of this host's.
    ahead_ms: Option<i64>,
}

type Check = fn(&Facts) -> Option<Finding>;

const CHECKS: [Check; 12] = [
    version,
    eviction,
    persistence,
    append_only_file,
    snapshots,
    replicas,
    min_replicas,
    latency,
    clock,
    memory,
    clients,
    cluster,
];

/// Asks a server, and judges what it said.
pub(super) async fn examine(server: &ServerView) -> Vec<Finding> {
    let mut facts = Facts::default();
    let mut findings = Vec::new();
    match server.info().await {
        Ok(info) => facts.info = info,
        Err(error) => findings.push(unchecked("info", "INFO", &error)),
    }
    match settings(server).await {
        Ok(settings) => facts.settings = settings,
        Err(error) => findings.push(unchecked("settings", "CONFIG GET", &error)),
    }
    if facts.info.get("cluster_enabled").is_some_and(|enabled| enabled == "1") {
        match server.cluster_info().await {
            Ok(cluster) => facts.cluster = cluster,
            Err(error) => findings.push(unchecked("cluster", "CLUSTER INFO", &error)),
        }
    }
    if let Err(error) = measure(server, &mut facts).await {
        findings.push(Finding::new(
            Problem,
            "latency",
            error.to_string(),
            advice_for(&error, "do what the message says"),
        ));
    }
    findings.extend(CHECKS.iter().filter_map(|check| check(&facts)));
    findings
}

/// What to do about an outage.
const ANSWERS: &str = "see that the server answers, and run this again";

/// The advice for an outage, or `otherwise`.
pub(super) fn advice_for(error: &Error, otherwise: impl Into<String>) -> String {
    if error.kind().is_transient() { ANSWERS.to_owned() } else { otherwise.into() }
}

/// Why a check could not be made.
fn unchecked(check: &'static str, command: &str, error: &Error) -> Finding {
    let what = format!("what {command} says could not be checked: {error}");
    let otherwise = format!("run this as a user who may use {command}, such as the server's default user");
    Finding::new(Note, check, what, advice_for(error, otherwise))
}

async fn settings(server: &ServerView) -> Result<Fields, Error> {
    let mut settings = Fields::new();
    for name in SETTINGS {
        if let Some(value) = server.setting(name).await? {
            settings.insert(name.to_owned(), value);
        }
    }
    Ok(settings)
}

async fn measure(server: &ServerView, facts: &mut Facts) -> Result<(), Error> {
    for _ in 0..PINGS {
        let start = Instant::now();
        server.time().await?;
        facts.pings.push(start.elapsed());
    }
    facts.pings.sort_unstable();
    let before = jiff::Timestamp::now().as_millisecond();
    let theirs = server.time().await?;
    let after = jiff::Timestamp::now().as_millisecond();
    facts.ahead_ms = i64::try_from(theirs.get()).ok().map(|theirs| theirs - before.midpoint(after));
    Ok(())
}

impl Facts {
    fn text(&self, name: &str) -> Option<&str> {
        self.info.get(name).map(String::as_str)
    }

    fn number(&self, name: &str) -> Option<u64> {
        self.text(name)?.parse().ok()
    }

    fn setting(&self, name: &str) -> Option<&str> {
        self.settings.get(name).map(String::as_str)
    }

    /// Its name and version. All of them say a version of Redis, too.
    fn product(&self) -> Option<(&'static str, &str)> {
        let of = |name, field| self.text(field).map(|version| (name, version));
        of("Valkey", "valkey_version")
            .or_else(|| of("Dragonfly", "dragonfly_version"))
            .or_else(|| of("Redis", "redis_version"))
    }

    fn has_append_only_file(&self) -> bool {
        self.text("aof_enabled") == Some("1")
    }
}

fn version(facts: &Facts) -> Option<Finding> {
    let (name, version) = facts.product()?;
    let mut parts =
        version.trim_start_matches(|c: char| !c.is_ascii_digit()).split('.').map_while(|part| part.parse::<u32>().ok());
    let (major, minor) = (parts.next()?, parts.next().unwrap_or(0));
    let this = format!("{name} {version}");
    let found = match (name, major, minor) {
        ("Dragonfly", ..) => {
            let what = format!("{this} was never tried with duly");
            Finding::new(
                Warning,
                "version",
                what,
                "use Redis or Valkey, or run duly's tests against it: docs/servers.md",
            )
        }
        ("Redis", ..6, _) | ("Redis", 6, ..2) => {
            let what =
                format!("{this} ignores min-replicas-to-write: a primary that is cut off takes jobs, which are lost");
            Finding::new(Note, "version", what, "Redis 6.2 or later refuses them")
        }
        ("Redis", 7, 0) | ("Valkey", 8, 0) if facts.has_append_only_file() => keeps_half_a_script(facts, &this),
        _ => Finding::ok("version", this),
    };
    Some(found)
}

/// No field says whether a server crashed or was stopped. But a file that was rewritten since the start has no half of a script.
fn keeps_half_a_script(facts: &Facts, this: &str) -> Finding {
    if facts.number("aof_base_size").is_some_and(|size| size > 0) && !was_rewritten(facts) {
        let what = format!(
            "{this} has loaded its append-only file and has not rewritten it since: if it had crashed, the file may have \
             half of a script, which the next start executes"
        );
        let advice = "if it had crashed, run BGREWRITEAOF, and then `duly audit QUEUE` for each queue: docs/servers.md";
        return Finding::new(Warning, "version", what, advice);
    }
    let what = format!("{this} keeps half of a script at the end of its file if it crashes while it writes that");
    let advice = "run BGREWRITEAOF after each start that follows a crash, and `duly audit QUEUE` for each queue: docs/servers.md";
    Finding::new(Note, "version", what, advice)
}

/// The server counts a rewrite when it begins. `CONFIG RESETSTAT` sets the count to 0: then the warning comes once too often, which harms
/// nothing. So it does if a rewrite has failed behind one that had not.
fn was_rewritten(facts: &Facts) -> bool {
    facts.number("aof_rewrites") != Some(0)
        && facts.text("aof_last_bgrewrite_status").is_none_or(|status| status == "ok")
        && facts.number("aof_rewrite_in_progress") != Some(1)
}

fn eviction(facts: &Facts) -> Option<Finding> {
    let policy = facts.text("maxmemory_policy")?;
    let most = facts.number("maxmemory")?;
    let advice = "CONFIG SET maxmemory-policy noeviction, and write it into the server's configuration";
    let found = match (policy, most) {
        ("noeviction", _) => Finding::ok("eviction", "the server evicts nothing"),
        (policy, 0) => {
            let what = format!("maxmemory-policy is {policy}: jobs will be lost as soon as somebody sets maxmemory");
            Finding::new(Note, "eviction", what, advice)
        }
        (policy, _) => {
            let what = format!(
                "the server evicts jobs when its memory is full (maxmemory-policy is {policy}), so duly refuses it"
            );
            Finding::new(Problem, "eviction", what, advice)
        }
    };
    Some(found)
}

fn persistence(facts: &Facts) -> Option<Finding> {
    let has_file = facts.text("aof_enabled")? == "1";
    let advice = "CONFIG SET appendonly yes, and write it into the server's configuration";
    if !has_file {
        return Some(match facts.setting("save") {
            Some("") => {
                let what = "neither an append-only file nor snapshots: a restart loses all jobs";
                Finding::new(Problem, "persistence", what, advice)
            }
            Some(save) => {
                let what = format!("there are only snapshots (save {save}): a crash loses all since the last one");
                Finding::new(Warning, "persistence", what, advice)
            }
            None => {
                let what = "there is no append-only file: a crash loses all since the last snapshot, if there are any";
                Finding::new(Warning, "persistence", what, advice)
            }
        });
    }
    let found = match facts.setting("appendfsync") {
        Some("no") => {
            let what = "the append-only file is written to the disk whenever the system likes: a crash of the machine loses half a minute";
            Finding::new(
                Warning,
                "persistence",
                what,
                "CONFIG SET appendfsync everysec, and write it into the server's configuration",
            )
        }
        Some("everysec") => Finding::ok(
            "persistence",
            "append-only file, every second: a crash of the machine loses one or two seconds",
        ),
        Some(policy) => Finding::ok("persistence", format!("append-only file, {policy}")),
        None => Finding::ok("persistence", "append-only file"),
    };
    Some(found)
}

fn append_only_file(facts: &Facts) -> Option<Finding> {
    if !facts.has_append_only_file() {
        return None;
    }
    let failed = |field: &str| facts.text(field).is_some_and(|status| status != "ok");
    let advice = "see the server's log, and make room on its disk";
    Some(if failed("aof_last_write_status") {
        let what = "the last write to the append-only file failed: the server refuses all writes until one succeeds";
        Finding::new(Problem, "append-only file", what, advice)
    } else if failed("aof_last_bgrewrite_status") {
        let what = "the last rewrite of the append-only file failed: it grows until the disk is full";
        Finding::new(Warning, "append-only file", what, advice)
    } else {
        Finding::ok("append-only file", "it was written")
    })
}

fn snapshots(facts: &Facts) -> Option<Finding> {
    if facts.text("rdb_last_bgsave_status")? == "ok" {
        return Some(Finding::ok("snapshots", "the last one, if any, was written"));
    }
    let what = "the last snapshot could not be written: with stop-writes-on-bgsave-error the server refuses all writes (MISCONF)";
    let advice = "see the server's log, make room on its disk, and run BGSAVE";
    Some(Finding::new(Problem, "snapshots", what, advice))
}

fn replicas(facts: &Facts) -> Option<Finding> {
    let count = facts.number("connected_slaves")?;
    let lines = (0..count).filter_map(|number| facts.text(&format!("slave{number}")));
    let field = |line: &str, name: &str| {
        line.split(',')
            .filter_map(|field| field.split_once('='))
            .find(|(key, _)| *key == name)
            .map(|(_, value)| value.to_owned())
    };
    let is_behind = |line: &&str| {
        let lag = field(line, "lag").and_then(|lag| lag.parse::<u64>().ok());
        field(line, "state").is_some_and(|state| state != "online") || lag.is_some_and(|lag| lag >= LAG_S)
    };
    let behind: Vec<_> = lines.filter(is_behind).collect();
    if let Some(line) = behind.first() {
        let (of, lag) = (field(line, "ip").unwrap_or_default(), field(line, "lag").unwrap_or_default());
        let what = format!(
            "{} of {count} replicas are behind, such as {of} ({lag} s): a failover to one loses what it has not received",
            behind.len()
        );
        return Some(Finding::new(
            Warning,
            "replicas",
            what,
            "see why it does not follow: its log, the network, its disk",
        ));
    }
    Some(Finding::ok(
        "replicas",
        match count {
            0 => "none: if this machine is lost, so are its jobs".to_owned(),
            1 => "one, and it follows".to_owned(),
            _ => format!("{count}, and all follow"),
        },
    ))
}

fn min_replicas(facts: &Facts) -> Option<Finding> {
    let needed: u64 = facts.setting("min-replicas-to-write")?.parse().ok()?;
    let there = facts.number("connected_slaves")?;
    let good = facts.number("min_slaves_good_slaves").unwrap_or(there);
    Some(if needed > good {
        let what =
            format!("min-replicas-to-write is {needed}, and {good} replicas follow: the server refuses all jobs");
        Finding::new(Problem, "min-replicas", what, "bring the replicas back, or lower min-replicas-to-write")
    } else if needed == 0 && there >= 2 {
        let what = "min-replicas-to-write is 0: a primary that is cut off from its replicas takes jobs, which a failover loses";
        Finding::new(Note, "min-replicas", what, "CONFIG SET min-replicas-to-write 1")
    } else {
        Finding::ok(
            "min-replicas",
            match needed {
                0 => "writes wait for no replica".to_owned(),
                _ => format!("writes need {needed}, and {good} follow"),
            },
        )
    })
}

fn latency(facts: &Facts) -> Option<Finding> {
    let (middle, slowest) = (*facts.pings.get(facts.pings.len() / 2)?, *facts.pings.last()?);
    let ms = |span: Duration| format!("{:.2} ms", span.as_secs_f64() * 1000.0);
    let what = format!("{PINGS} round trips: half within {}, the slowest {}", ms(middle), ms(slowest));
    Some(if middle >= SLOW || slowest >= SLOWEST {
        let advice = "run workers near the server; `redis-cli --latency` there, SLOWLOG GET and LATENCY DOCTOR say whether it is the server";
        Finding::new(Warning, "latency", format!("{what}: each call of a worker waits as long"), advice)
    } else {
        Finding::ok("latency", what)
    })
}

fn clock(facts: &Facts) -> Option<Finding> {
    let ahead = facts.ahead_ms?;
    let span = Millis::new(ahead.unsigned_abs());
    let direction = if ahead < 0 { "behind" } else { "ahead of" };
    let what = format!("the server's clock is {span} s {direction} this host's");
    Some(if ahead.abs() >= CLOCKS_APART_MS {
        let what = format!("{what}: jobs run by the server's clock, times that this host gives (`at`) are by its own");
        Finding::new(Warning, "clock", what, "let both hosts ask the same time servers (chrony, systemd-timesyncd)")
    } else {
        Finding::ok("clock", what)
    })
}

/// How much of a bound is used, and how bad that is.
fn used(part: u64, whole: u64) -> (u64, Level) {
    let percent = part.saturating_mul(100) / whole.max(1);
    let level = match percent {
        NEARLY_ALL.. => Problem,
        MUCH.. => Warning,
        _ => Level::Ok,
    };
    (percent, level)
}

fn memory(facts: &Facts) -> Option<Finding> {
    let (is_used, most) = (facts.number("used_memory")?, facts.number("maxmemory")?);
    if most == 0 {
        let whole = facts.number("total_system_memory")?;
        let (percent, level) = used(is_used, whole);
        let what = format!("{} used, {percent} % of the machine's; there is no maxmemory", bytes(is_used));
        if level == Level::Ok {
            return Some(Finding::ok("memory", what));
        }
        let what = format!("{what}: the system will kill the server");
        return Some(Finding::new(
            level,
            "memory",
            what,
            "make room, and set maxmemory: then pushes are refused, and nothing is lost",
        ));
    }
    let (percent, level) = used(is_used, most);
    let what = format!("{} of {} used, {percent} %", bytes(is_used), bytes(most));
    Some(match level {
        Level::Ok => Finding::ok("memory", what),
        level => {
            let advice =
                "raise maxmemory, let workers catch up, or purge failed jobs: `duly doctor` lists the largest queues";
            Finding::new(level, "memory", format!("{what}: pushes are refused when it is full"), advice)
        }
    })
}

fn clients(facts: &Facts) -> Option<Finding> {
    let connected = facts.number("connected_clients")?;
    let most = facts.setting("maxclients").and_then(|most| most.parse().ok()).or_else(|| facts.number("maxclients"))?;
    let (percent, level) = used(connected, most);
    let what = format!("{connected} of {most} connections are open, {percent} %");
    Some(match level {
        Level::Ok => Finding::ok("clients", what),
        level => {
            let advice = "raise maxclients and the server's limit of open files, or see who holds them: CLIENT LIST";
            Finding::new(level, "clients", format!("{what}: beyond that workers and producers are refused"), advice)
        }
    })
}

fn cluster(facts: &Facts) -> Option<Finding> {
    let state = facts.cluster.get("cluster_state")?;
    let slots = |name: &str| facts.cluster.get(name).and_then(|count| count.parse::<u64>().ok()).unwrap_or(0);
    let (covered, failing) = (slots("cluster_slots_assigned"), slots("cluster_slots_fail"));
    if state == "ok" && covered == 16_384 && failing == 0 {
        return Some(Finding::ok("cluster", "all 16384 slots are covered"));
    }
    let missing = 16_384 - covered.min(16_384);
    let what = format!(
        "the cluster is in the state {state}; {missing} of 16384 slots have no node, and {failing} one that is away: queues there do not work, \
         or none at all (cluster-require-full-coverage)"
    );
    let to_do = if failing > 0 {
        "start the nodes that are away, which `redis-cli --cluster check` names, or give their slots to others"
    } else {
        "`redis-cli --cluster check` names the slots, `--cluster fix` gives them to a node"
    };
    Some(Finding::new(Problem, "cluster", what, to_do))
}

/// In the largest unit, such as `1.5 GiB`.
pub(crate) fn bytes(count: u64) -> String {
    let mut tenths = u128::from(count) * 10;
    for unit in ["B", "KiB", "MiB"] {
        if tenths < 10_240 {
            return format!("{}.{} {unit}", tenths / 10, tenths % 10).replace(".0 B", " B");
        }
        tenths /= 1024;
    }
    format!("{}.{} GiB", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(info: &[(&str, &str)]) -> Facts {
        let field = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Facts { info: info.iter().map(field).collect(), ..Facts::default() }
    }

    #[test]
    fn what_an_outage_keeps_from_a_check_is_no_matter_of_permissions() {
        let error = |kind| Error::new(kind, "no");
        let of_check = |kind| unchecked("info", "INFO", &error(kind)).advice;
        assert_eq!(of_check(duly::ErrorKind::Unreachable), ANSWERS);
        assert!(of_check(duly::ErrorKind::PermissionDenied).contains("a user who may use INFO"));
        assert_eq!(advice_for(&error(duly::ErrorKind::Unreachable), "another user"), ANSWERS);
        assert_eq!(advice_for(&error(duly::ErrorKind::PermissionDenied), "another user"), "another user");
    }

    #[test]
    fn slots_whose_node_is_away_are_given_to_no_other_one_yet() {
        let advice = |failing: &str| {
            let said =
                [("cluster_state", "fail"), ("cluster_slots_assigned", "16384"), ("cluster_slots_fail", failing)];
            let said = said.map(|(name, value)| (name.to_owned(), value.to_owned()));
            cluster(&Facts { cluster: said.into_iter().collect(), ..Facts::default() }).unwrap().advice
        };
        assert!(advice("5461").starts_with("start the nodes that are away"));
        assert!(advice("0").contains("--cluster fix"));
    }

    #[test]
    fn servers_that_no_test_starts_are_known_by_what_they_say() {
        let level = |info: &[(&str, &str)]| version(&facts(info)).map(|found| found.level);
        let file = ("aof_enabled", "1");
        assert_eq!(level(&[("redis_version", "6.0.16"), file]), Some(Note));
        assert_eq!(level(&[("redis_version", "6.2.14"), file]), Some(Level::Ok));
        assert_eq!(level(&[("redis_version", "7.2.4"), ("valkey_version", "8.0.1"), file]), Some(Note));
        assert_eq!(level(&[("redis_version", "7.2.4"), ("valkey_version", "9.1.2"), file]), Some(Level::Ok));
        let loaded = |rewrites, status, goes_on| {
            let rewritten = [("aof_last_bgrewrite_status", status), ("aof_rewrite_in_progress", goes_on)];
            let known = [file, ("redis_version", "7.0.15"), ("aof_base_size", "89"), ("aof_rewrites", rewrites)];
            level(&[&known[..], &rewritten].concat())
        };
        assert_eq!(loaded("1", "ok", "0"), Some(Note));
        for (rewrites, status, goes_on) in [("0", "ok", "0"), ("1", "err", "0"), ("1", "ok", "1"), ("2", "err", "1")] {
            assert_eq!(loaded(rewrites, status, goes_on), Some(Warning), "{rewrites} {status} {goes_on}");
        }
        assert_eq!(level(&[("redis_version", "7.4.0"), ("dragonfly_version", "df-v1.2.0")]), Some(Warning));
        assert_eq!(level(&[]), None);
    }

    #[test]
    fn a_server_without_a_limit_is_measured_by_its_machine() {
        let found = |used| {
            let info = [("maxmemory", "0"), ("used_memory", used), ("total_system_memory", "1000")];
            memory(&facts(&info)).map(|found| found.level)
        };
        assert_eq!(["799", "800", "950"].map(found), [Some(Level::Ok), Some(Warning), Some(Problem)]);
    }

    #[test]
    fn bytes_are_read_at_a_glance() {
        assert_eq!([0, 1023, 1536, 5 << 20, 3 << 30].map(bytes), ["0 B", "1023 B", "1.5 KiB", "5.0 MiB", "3.0 GiB"]);
    }
}
