//! The full contents of a queue's keys, of the model and of the server, in one shape.

use std::collections::BTreeMap;

use redis::Value;

use crate::script::{Key, Levels, QueueKeys};

use super::rate;
use super::server::Server;
use super::state::{State, delayed_member};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Contents {
    Hash(BTreeMap<String, String>),
    /// In the server's order.
    Sorted(Vec<(String, u64)>),
    List(Vec<String>),
    /// A string, which ends by itself.
    Text(String),
}

/// By the last part of the key's name; keys that do not exist are left out.
pub(super) type Dump = BTreeMap<String, Contents>;

/// A lifetime that no script gives, by which one sees whether a script gave one.
pub(super) const AGED_MS: u64 = 600_000;

fn add_hash(dump: &mut Dump, name: &str, hash: BTreeMap<String, String>) {
    if !hash.is_empty() {
        dump.insert(name.to_owned(), Contents::Hash(hash));
    }
}

fn add_sorted(dump: &mut Dump, name: &str, members: impl Iterator<Item = (String, u64)>) {
    let mut members: Vec<_> = members.collect();
    members.sort_by(|a, b| (a.1, &a.0).cmp(&(b.1, &b.0)));
    if !members.is_empty() {
        dump.insert(name.to_owned(), Contents::Sorted(members));
    }
}

fn add_list(dump: &mut Dump, name: &str, items: Vec<String>) {
    if !items.is_empty() {
        dump.insert(name.to_owned(), Contents::List(items));
    }
}

impl State {
    /// What the server's keys must hold.
    pub(super) fn dump(&self) -> Dump {
        let mut dump = Dump::new();
        let text = |(name, value): (&String, String)| (name.clone(), value);
        let lossy = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        add_hash(&mut dump, "jobs", self.records.iter().map(|(id, r)| text((id, lossy(r.bytes())))).collect());
        let delayed = self.delayed.iter().map(|((id, level), &at)| (delayed_member(id, *level), at));
        add_sorted(&mut dump, "delayed", delayed);
        add_sorted(&mut dump, "reserved", self.leases.iter().map(|(id, lease)| (id.clone(), lease.ends)));
        add_hash(&mut dump, "leases", self.leases.iter().map(|(id, l)| text((id, l.token.to_string()))).collect());
        add_sorted(&mut dump, "failed", self.failed.iter().map(|(id, &at)| (id.clone(), at)));
        add_hash(&mut dump, "returned", self.returned.iter().map(|(id, note)| text((id, note.text()))).collect());
        add_hash(&mut dump, "keys", self.keys.clone());
        let stale = self.stale_entries();
        let stale_total: usize = stale.values().sum();
        add_hash(
            &mut dump,
            "stale",
            stale.into_iter().map(|((level, id), n)| (format!("{level}:{id}"), n.to_string())).collect(),
        );
        add_sorted(&mut dump, "parked", self.parked.iter().map(|(id, parked)| (id.clone(), parked.score())));
        add_sorted(&mut dump, "places", self.places.iter().map(|(id, &number)| (id.clone(), number)));
        add_list(&mut dump, "wake", vec!["1".to_owned(); self.wakes]);
        let meta = &self.meta;
        let numbers = [
            ("format", meta.format),
            ("set_back", meta.set_back.map(|(behind, _)| behind)),
            ("set_back_token", meta.set_back.map(|(_, token)| token)),
            ("large", meta.large.then_some(1)),
            ("paused", meta.paused.then_some(1)),
            ("timer", meta.timer),
            ("token", meta.token),
            ("failed_max", meta.failed_max),
            ("failed_age_ms", meta.failed_age_ms),
            ("parked", meta.parked),
            ("put_first", meta.put_first),
            ("unheard_last", meta.unheard_last),
            ("heard_to", meta.heard_to),
            ("trimmed_reported", meta.trimmed_reported),
            ("stale_entries", (stale_total > 0).then_some(stale_total as u64)),
        ];
        let fields = numbers.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?.to_string())));
        let levels = meta.levels.map(|levels| ("levels".to_owned(), levels.to_string()));
        let limits = meta.limits.as_ref().map(|limits| ("limits".to_owned(), limits.text()));
        let rates = meta.rate_at.iter().map(|(number, &at)| (format!("rate_at:{number}"), rate::text(at)));
        let clock = [("clock".to_owned(), self.clock_text())];
        let line = meta.unheard.iter().map(|(number, id)| (format!("unheard:{number}"), id.clone()));
        let line = line.chain(meta.ended.iter().map(|(id, ends)| (format!("ended:{id}"), ends.to_string())));
        let texts = clock.into_iter().chain(levels).chain(limits);
        let texts = texts.chain(rates).chain(line);
        add_hash(&mut dump, "meta", fields.chain(texts).collect());
        add_hash(&mut dump, "stats", self.stats.iter().map(|(n, v)| (n.clone(), v.to_string())).collect());
        for (level, list) in &self.ready {
            add_list(&mut dump, &format!("ready:{level}"), list.iter().map(|entry| entry.id.clone()).collect());
        }
        let workers = self.workers.iter().map(|(id, (until, _))| (id.clone(), *until));
        add_sorted(&mut dump, "workers", workers);
        add_sorted(&mut dump, "unheard", self.unheard.iter().map(|(id, &until)| (id.clone(), until)));
        let infos = self.workers.iter().map(|(id, (_, info))| (id.clone(), info.clone()));
        add_hash(&mut dump, "worker_infos", infos.collect());
        for (id, (_, noted)) in &self.progress {
            dump.insert(format!("progress:{id}"), Contents::Text(noted.clone()));
        }
        for (id, result) in &self.results {
            dump.insert(format!("result:{id}"), Contents::Text(result.clone()));
        }
        for id in &self.woken {
            add_list(&mut dump, &format!("done:{id}"), vec!["1".to_owned()]);
        }
        for (client, calls) in &self.calls {
            let slots =
                calls.slots.iter().map(|(slot, (number, answer))| (slot.to_string(), format!("{number} {answer}")));
            let mut hash: BTreeMap<_, _> = slots.collect();
            hash.insert("(lifetime)".to_owned(), if calls.is_fresh { "fresh" } else { "aged" }.to_owned());
            add_hash(&mut dump, &format!("call:{client}"), hash);
        }
        dump
    }
}

/// Reads everything under the queue's prefix; a key of an unknown name is shown, too.
pub(super) fn read(server: &mut Server, keys: &QueueKeys, clients: &[&str]) -> Dump {
    read_without(server, keys, clients, "")
}

/// The same without one key, which may be of any type.
pub(super) fn read_without(server: &mut Server, keys: &QueueKeys, clients: &[&str], without: &str) -> Dump {
    let start = keys.spell(Key::Jobs);
    let start = start.strip_suffix("jobs").unwrap();
    let named = |key: Key| (key.name().to_owned(), key.redis_type());
    let mut wanted: Vec<(String, &str)> = Key::FIXED.into_iter().map(named).collect();
    wanted.extend(Levels::ALL.iter().map(|level| (format!("ready:{level}"), "list")));
    wanted.extend(clients.iter().map(|client| (format!("call:{client}"), "hash")));
    wanted.retain(|(name, _)| name != without);
    let mut pipeline = redis::pipe();
    pipeline.cmd("KEYS").arg(format!("{start}*"));
    for (name, kind) in &wanted {
        let key = format!("{start}{name}");
        match *kind {
            "hash" => pipeline.cmd("HGETALL").arg(key),
            "zset" => pipeline.cmd("ZRANGE").arg(key).arg("0").arg("-1").arg("WITHSCORES"),
            _ => pipeline.cmd("LRANGE").arg(key).arg("0").arg("-1"),
        };
    }
    for client in clients {
        pipeline.cmd("PTTL").arg(format!("{start}call:{client}"));
    }
    let mut replies = server.pipeline(&pipeline).into_iter();
    let existing = texts(replies.next().unwrap());
    let mut dump = Dump::new();
    for (name, kind) in &wanted {
        let items = texts(replies.next().unwrap());
        match *kind {
            "hash" => add_hash(&mut dump, name, pairs(items).collect()),
            "zset" => {
                let members: Vec<_> = pairs(items).map(|(member, score)| (member, score.parse().unwrap())).collect();
                if !members.is_empty() {
                    dump.insert(name.clone(), Contents::Sorted(members));
                }
            }
            _ => add_list(&mut dump, name, items),
        }
    }
    for client in clients {
        let lifetime = match replies.next().unwrap() {
            Value::Int(ms) if ms > i64::try_from(AGED_MS).unwrap() => "fresh",
            Value::Int(ms) if ms > 0 => "aged",
            _ => "for ever",
        };
        if let Some(Contents::Hash(hash)) = dump.get_mut(&format!("call:{client}")) {
            hash.insert("(lifetime)".to_owned(), lifetime.to_owned());
        }
    }
    read_own_keys(server, start, &existing, without, &mut dump);
    for key in existing {
        dump.entry(key[start.len()..].to_owned()).or_insert(Contents::List(vec!["(unknown key)".to_owned()]));
    }
    // A counter that came back to zero is as good as none.
    if let Some(Contents::Hash(meta)) = dump.get_mut("meta") {
        meta.retain(|name, value| name != "stale_entries" || value != "0");
    }
    dump
}

/// What single jobs have of their own. A key that does not end by itself is shown as unknown.
fn read_own_keys(server: &mut Server, start: &str, existing: &[String], without: &str, dump: &mut Dump) {
    let is_own =
        |name: &&str| *name != without && ["result:", "done:", "progress:"].iter().any(|start| name.starts_with(start));
    let names: Vec<&str> = existing.iter().map(|key| &key[start.len()..]).filter(is_own).collect();
    let mut pipeline = redis::pipe();
    for name in &names {
        let key = format!("{start}{name}");
        pipeline.cmd("PTTL").arg(&key);
        if name.starts_with("done:") {
            pipeline.cmd("LRANGE").arg(&key).arg("0").arg("-1");
        } else {
            pipeline.cmd("GET").arg(&key);
        }
    }
    if names.is_empty() {
        return;
    }
    let mut replies = server.pipeline(&pipeline).into_iter();
    for name in names {
        let ends = matches!(replies.next().unwrap(), Value::Int(ms) if ms > 0);
        match replies.next().unwrap() {
            list @ Value::Array(_) if ends => add_list(dump, name, texts(list)),
            value if ends => drop(dump.insert(name.to_owned(), Contents::Text(text(value)))),
            _ => {}
        }
    }
}

fn texts(reply: Value) -> Vec<String> {
    let Value::Array(items) = reply else { panic!("not a list: {reply:?}") };
    items.into_iter().map(text).collect()
}

fn text(reply: Value) -> String {
    match reply {
        Value::BulkString(bytes) => String::from_utf8(bytes).unwrap(),
        Value::Int(number) => number.to_string(),
        other => panic!("not text: {other:?}"),
    }
}

fn pairs(items: Vec<String>) -> impl Iterator<Item = (String, String)> {
    let mut items = items.into_iter();
    std::iter::from_fn(move || Some((items.next()?, items.next()?)))
}

/// What differs, key by key, for a failure that one can read.
pub(super) fn difference(model: &Dump, server: &Dump) -> String {
    let mut lines = Vec::new();
    for name in model.keys().chain(server.keys().filter(|name| !model.contains_key(*name))) {
        if model.get(name) != server.get(name) {
            lines.push(format!("{name}:\n  model:  {:?}\n  server: {:?}", model.get(name), server.get(name)));
        }
    }
    lines.join("\n")
}
