//! The cluster's map: which server owns which slot. A queue is one slot, so this is all the routing there is.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use redis::Value;
use tokio::time::Instant;

use super::address::Address;
use super::ask_around;
use super::breaker::Breaker;
use super::link::{Dialer, Purpose, Request};
use super::patience::Patience;
use super::server::Server;
use super::single_flight::SingleFlight;
use super::topology::KnownServers;
use super::trouble::Trouble;
use crate::value::error::{Error, ErrorKind};

const SLOTS: usize = 16_384;

pub(super) struct Cluster {
    seeds: Vec<Address>,
    known: KnownServers,
    owners: RwLock<Vec<Option<Arc<Server>>>>,
    stale: AtomicBool,
    /// Says of itself that it has lost the cluster.
    distrusted: Mutex<Option<Address>>,
    /// Counts who was asked for the map, so that others are asked next time.
    turn: AtomicUsize,
    asking: SingleFlight,
    /// For slots whose owner was never known.
    breaker: Arc<Breaker>,
}

impl Cluster {
    pub(super) fn new(seeds: Vec<Address>) -> Self {
        Self {
            seeds,
            known: KnownServers::default(),
            owners: RwLock::new(Vec::new()),
            stale: AtomicBool::new(true),
            distrusted: Mutex::default(),
            turn: AtomicUsize::new(0),
            asking: SingleFlight::default(),
            breaker: Arc::default(),
        }
    }

    /// Closes the connections to all nodes.
    pub(super) fn leave(&self) {
        self.known.all().iter().for_each(|server| server.leave());
    }

    pub(super) async fn find_owner(
        self: &Arc<Self>,
        slot: u16,
        dialer: &Arc<Dialer>,
        deadline: Instant,
    ) -> Result<Arc<Server>, Trouble> {
        let (cluster, dialer) = (Arc::clone(self), Arc::clone(dialer));
        let ask = async move {
            cluster.ask(slot, &dialer, deadline).await?;
            cluster.believed_owner(slot).ok_or_else(|| {
                Trouble::not_now(Error::new(ErrorKind::Busy, format!("no server of the cluster owns slot {slot}")))
            })
        };
        let cluster = Arc::clone(self);
        self.asking.run(deadline, move || cluster.believed_owner(slot), ask).await
    }

    /// A server failed: its slots may have a new owner. One that says itself that it has lost the cluster knows no more.
    pub(super) fn doubt(&self, server: &Server, has_lost_cluster: bool) {
        let mut distrusted = self.distrusted.lock().unwrap_or_else(PoisonError::into_inner);
        *distrusted = has_lost_cluster.then(|| server.address.clone());
        drop(distrusted);
        self.outdated();
    }

    /// The map is not what it was.
    pub(super) fn outdated(&self) {
        self.stale.store(true, Ordering::Release);
    }

    /// MOVED: from now on this server owns the slot. Other slots that moved with it will say so themselves.
    pub(super) fn moved(&self, slot: u16, to: Address) {
        let server = self.known.at(to);
        server.takes_over();
        let mut owners = self.owners.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(owner) = owners.get_mut(usize::from(slot)) {
            *owner = Some(server);
        }
    }

    pub(super) fn server_at(&self, address: Address) -> Arc<Server> {
        self.known.at(address)
    }

    pub(super) fn has_answered(&self) -> bool {
        !self.known.is_empty()
    }

    /// The owner as far as we know, if there is no doubt.
    pub(super) fn believed_owner(&self, slot: u16) -> Option<Arc<Server>> {
        if self.stale.load(Ordering::Acquire) {
            return None;
        }
        self.last_owner(slot)
    }

    /// What is known of outages of the slot's owner, also of one in doubt.
    pub(super) fn breaker(&self, slot: u16) -> Arc<Breaker> {
        self.last_owner(slot).map_or_else(|| Arc::clone(&self.breaker), |owner| Arc::clone(&owner.breaker))
    }

    fn last_owner(&self, slot: u16) -> Option<Arc<Server>> {
        self.owners.read().unwrap_or_else(PoisonError::into_inner).get(usize::from(slot))?.as_ref().map(Arc::clone)
    }

    /// Have these slots the same owner? Also when another server has come in the place of that one.
    pub(super) fn are_together(&self, slot: u16, other: u16) -> bool {
        let owners = self.owners.read().unwrap_or_else(PoisonError::into_inner);
        let owner = |slot: u16| owners.get(usize::from(slot)).and_then(Option::as_ref);
        owner(slot).zip(owner(other)).is_some_and(|(owner, other)| Arc::ptr_eq(owner, other))
    }

    /// Asks for the map.
    async fn ask(&self, slot: u16, dialer: &Arc<Dialer>, deadline: Instant) -> Result<(), Trouble> {
        let question = |server: Arc<Server>| {
            let dialer = Arc::clone(dialer);
            async move { ask_one(&server, &dialer, deadline).await }
        };
        let map = ask_around::first_answer(self.candidates(slot), &self.turn, question).await.map_err(|trouble| {
            trouble
                .unwrap_or_else(|| Trouble::refused(Error::invalid("the server's URL names no server of the cluster")))
        })?;
        self.take_map(map);
        Ok(())
    }

    /// Whom to ask for the map: the slot's owner, who most likely only lost a connection; then, in turn, those with an open
    /// link, those of the newest map, and the URL's.
    fn candidates(&self, slot: u16) -> Vec<Arc<Server>> {
        let mut others = self.known.all();
        let seeds = self.seeds.iter().filter(|&seed| others.iter().all(|server| server.address != *seed));
        let seeds: Vec<_> = seeds.map(|seed| Server::new(seed.clone())).collect();
        others.sort_by_key(|server| server.address.to_string());
        others.extend(seeds);
        if !others.is_empty() {
            let turn = self.turn.load(Ordering::Relaxed) % others.len();
            others.rotate_left(turn);
        }
        others.sort_by_key(|server| server.open_link().is_none());
        let owner = self.last_owner(slot);
        let distrusted = self.distrusted.lock().unwrap_or_else(PoisonError::into_inner);
        others.sort_by_key(|server| {
            if distrusted.as_ref() == Some(&server.address) {
                return 2;
            }
            u8::from(owner.as_ref().is_none_or(|owner| owner.address != server.address))
        });
        others
    }

    /// From now on this map is true. Servers that it does not know are forgotten: nobody asks them for the next one.
    fn take_map(&self, map: Map) {
        let mut owners = vec![None; SLOTS];
        for (first, last, address) in map.ranges {
            let server = self.known.at(address);
            owners.iter_mut().take(last + 1).skip(first).for_each(|owner| *owner = Some(Arc::clone(&server)));
        }
        // They know the map too, also when their primary is away.
        map.replicas.iter().for_each(|address| drop(self.known.at(address.clone())));
        let is_owner = |server: &Server| owners.iter().flatten().any(|owner| owner.address == server.address);
        self.known.retain(|server| map.replicas.contains(&server.address) || is_owner(server));
        let mut before = self.owners.write().unwrap_or_else(PoisonError::into_inner);
        for (owner, before) in owners.iter().zip(&*before) {
            if let (Some(owner), Some(before)) = (owner, before)
                && !Arc::ptr_eq(owner, before)
            {
                owner.takes_over();
            }
        }
        *before = owners;
        self.stale.store(false, Ordering::Release);
    }
}

/// What one server says of the cluster.
struct Map {
    /// First and last slot, and their owner.
    ranges: Vec<(usize, usize, Address)>,
    replicas: Vec<Address>,
}

impl Map {
    /// Reads `[[first, last, [host, port, ...], replicas ...], ...]`; none when it names no owner at all.
    fn read(answer: &Value, said_by: &Address) -> Option<Self> {
        let Value::Array(ranges) = answer else { return None };
        let mut map = Self { ranges: Vec::new(), replicas: Vec::new() };
        for range in ranges {
            let Value::Array(parts) = range else { continue };
            let [Value::Int(first), Value::Int(last), owner, replicas @ ..] = parts.as_slice() else { continue };
            let (Ok(first), Ok(last)) = (usize::try_from(*first), usize::try_from(*last)) else { continue };
            if let Some(owner) = node(owner, said_by) {
                map.ranges.push((first, last, owner));
                map.replicas.extend(replicas.iter().filter_map(|replica| node(replica, said_by)));
            }
        }
        (!map.ranges.is_empty()).then_some(map)
    }
}

fn node(node: &Value, said_by: &Address) -> Option<Address> {
    let Value::Array(node) = node else { return None };
    let (host, port) = match node.as_slice() {
        [Value::BulkString(host), Value::Int(port), ..] => (String::from_utf8_lossy(host), *port),
        // Redis 7 gives nil when the server does not know how it is called from outside.
        [Value::Nil, Value::Int(port), ..] => ("".into(), *port),
        _ => return None,
    };
    Address::from_parts(&host, u16::try_from(port).ok()?, said_by)
}

async fn ask_one(server: &Arc<Server>, dialer: &Dialer, deadline: Instant) -> Result<Map, Trouble> {
    let mut question = redis::cmd("CLUSTER");
    question.arg("SLOTS");
    let until = dialer.ready_before(deadline);
    let mut answer = None;
    if let Some(link) = server.open_link() {
        answer = link.send(Request::Plain(&question), false, Patience::until(until)).await.ok();
    }
    if answer.is_none() {
        let link = dialer.link(&server.address, Purpose::AskCluster, until).await?;
        answer = Some(link.send(Request::Plain(&question), false, Patience::until(until)).await?);
    }
    answer.and_then(|answer| Map::read(&answer, &server.address)).ok_or_else(|| {
        let message = format!("the cluster behind {} has no slots yet", server.address);
        Trouble::not_now(Error::new(ErrorKind::Busy, message))
    })
}

/// Reads this as a map; whatever it says, the server of the URL stays known. Was it one?
#[cfg(any(test, fuzzing))]
pub(crate) fn reads_map(answer: &Value) -> bool {
    let seed = Address::Tcp { host: "h".into(), port: 1 };
    let cluster = Cluster::new(vec![seed.clone()]);
    let map = Map::read(answer, &seed);
    let is_map = map.is_some();
    if let Some(map) = map {
        cluster.take_map(map);
    }
    for slot in [0, 9, 16_383] {
        assert!(cluster.candidates(slot).iter().any(|server| server.address == seed));
    }
    is_map
}

#[cfg(test)]
mod tests {
    use super::super::outages::Outages;
    use super::super::trouble::Away;
    use super::*;

    fn at(port: u16) -> Address {
        Address::Tcp { host: "h".into(), port }
    }

    fn ports(cluster: &Cluster, slot: u16) -> Vec<u16> {
        let port = |server: &Arc<Server>| match server.address {
            Address::Tcp { port, .. } => port,
            Address::Unix(_) => 0,
        };
        cluster.candidates(slot).iter().map(port).collect()
    }

    fn sorted(mut ports: Vec<u16>) -> Vec<u16> {
        ports.sort_unstable();
        ports
    }

    #[test]
    fn the_owner_is_asked_first_unless_it_is_lost_and_who_left_the_map_no_more() {
        let cluster = Cluster::new(vec![at(1)]);
        assert_eq!(ports(&cluster, 0), [1], "the URL's");
        cluster.take_map(Map { ranges: vec![(0, 9, at(2)), (10, 19, at(3))], replicas: vec![at(4)] });
        assert_eq!(sorted(ports(&cluster, 0)), [1, 2, 3, 4]);
        for turn in 0..4 {
            cluster.turn.store(turn, Ordering::Relaxed);
            assert_eq!((ports(&cluster, 0)[0], ports(&cluster, 10)[0]), (2, 3));
        }
        let second: Vec<u16> = (0..4)
            .map(|turn| {
                cluster.turn.store(turn, Ordering::Relaxed);
                ports(&cluster, 0)[1]
            })
            .collect();
        assert!([1, 3, 4].iter().all(|port| second.contains(port)), "all have their turn: {second:?}");

        cluster.doubt(&cluster.server_at(at(2)), true);
        assert_eq!(ports(&cluster, 0)[3], 2, "it says itself that it has lost the cluster");
        cluster.doubt(&cluster.server_at(at(2)), false);
        assert_eq!(ports(&cluster, 0)[0], 2);

        cluster.take_map(Map { ranges: vec![(0, 19, at(3))], replicas: vec![at(5)] });
        assert_eq!(sorted(ports(&cluster, 0)), [1, 3, 5]);
    }

    #[test]
    fn the_slots_of_one_server_stay_together_when_another_comes_in_its_place_and_that_is_noted() {
        let cluster = Cluster::new(vec![at(1)]);
        assert!(!cluster.are_together(7, 8), "nothing is known yet");
        let take_over = |ports: [u16; 2]| {
            let map = Map {
                ranges: vec![(0, 4, at(ports[0])), (5, 9, at(ports[1])), (10, 14, at(ports[0]))],
                replicas: vec![],
            };
            cluster.take_map(map);
            ports.map(|port| cluster.server_at(at(port)).may_have_been_away())
        };
        assert_eq!(take_over([2, 3]), [false, false]);
        let with = |slot: u16| [0, 4, 5, 9, 14, 15].map(|other| cluster.are_together(slot, other));
        assert_eq!(with(4), [true, true, false, false, true, false]);
        assert_eq!(with(5), [false, false, true, true, false, false]);
        assert_eq!(with(15), [false; 6], "nobody has it");
        assert_eq!(take_over([2, 3]), [false, false]);
        assert_eq!(take_over([2, 4]), [false, true]);
        assert!(cluster.are_together(5, 9));
        assert_eq!(take_over([2, 4]), [false, false], "that is said once");
        cluster.moved(5, at(6));
        assert!(cluster.server_at(at(6)).may_have_been_away());
    }

    #[test]
    fn an_outage_stays_known_when_slots_move_to_a_server_one_by_one() {
        let (cluster, outages, now) = (Cluster::new(vec![at(1)]), Outages::default(), Instant::now());
        cluster.take_map(Map { ranges: vec![(0, 9, at(2))], replicas: vec![] });
        let noted_at = |slot| outages.noted_at(slot, now, |noted| cluster.are_together(noted, slot));
        let spared = |slot| outages.spares(noted_at(slot), now);
        cluster.moved(7, at(3));
        outages.failed(noted_at(7), Away::ForAll, now);
        assert_eq!([4, 5, 7].map(spared), [false, false, true], "the others have not moved yet");
        for (slot, known) in [(8, [false, false, true]), (4, [true, false, true])] {
            cluster.moved(slot, at(3));
            assert_eq!([4, 5, 7].map(spared), known, "{slot} has moved");
        }
        cluster.take_map(Map { ranges: vec![(0, 9, at(4))], replicas: vec![] });
        assert_eq!([0, 4, 5, 7].map(spared), [true; 4], "all have moved on");
    }

    #[test]
    fn no_map_makes_it_panic_or_lose_the_servers_of_the_url() {
        use proptest::{collection::vec, prelude::*, sample::select};

        use crate::properties::{holds_in_batches, note};

        let number = || select(&[0, 1, 9, 16_383, 16_384, -1, 6379, 65_536, i64::MAX, i64::MIN]).prop_map(Value::Int);
        let host = select(&["h", "", "?", "::1", "[", "\0"]).prop_map(|host| Value::BulkString(host.into()));
        let other = || prop_oneof![Just(Value::Nil), Just(Value::Okay), Just(Value::Array(Vec::new())), number()];
        let name = prop_oneof![6 => host, 1 => other()];
        let node =
            prop_oneof![9 => (name, number()).prop_map(|(host, port)| Value::Array(vec![host, port])), 1 => other()];
        let range = (number(), number(), vec(node, 0..4)).prop_map(|(first, last, nodes)| {
            let mut parts = vec![first, last];
            parts.extend(nodes);
            Value::Array(parts)
        });
        let answer = vec(prop_oneof![9 => range, 1 => other()], 8..12).prop_map(Value::Array);
        holds_in_batches(8, &answer, &["a map"], |answer, seen| {
            if reads_map(&answer) {
                note(seen, "a map");
            }
            Ok(())
        });
    }
}
