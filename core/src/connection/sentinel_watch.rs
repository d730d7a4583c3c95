//! Learns from the sentinels that another server has become the primary, as go-redis does.
//!
//! A planned failover leaves the old primary writable until a sentinel demotes it, some ten seconds or more, and what is
//! written there meanwhile is forgotten with its demotion. No reply of that server would show it.

use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::StreamExt;
use redis::RedisConnectionInfo;
use redis::aio::PubSub;
use tokio::time::{Instant, timeout};

use super::address::Address;
use super::backoff::Backoff;
use super::link::Dialer;
use super::sentinel::Sentinels;
use super::stream;

/// When a sentinel names another primary: the one that leads the failover while it still changes the other replicas, the others
/// when they learn of its end.
const CHANNELS: [&str; 2] = ["+failover-state-reconf-slaves", "+switch-master"];
/// A sentinel that has said nothing for so long is asked whether it is there.
const SILENCE: Duration = Duration::from_secs(3);
/// How long to rest when no sentinel is there.
const REST: Duration = Duration::from_secs(2);

/// Ends with the client. Whatever fails is tried again: without it a failover is still seen, but later.
pub(super) async fn watch(sentinels: Weak<Sentinels>, dialer: Arc<Dialer>) {
    let mut backoff = Backoff::default();
    loop {
        let Some(known) = sentinels.upgrade() else { return };
        let addresses: Vec<_> = known.in_turn().map(|(at, address)| (at, address.clone())).collect();
        drop(known);
        for (at, address) in addresses {
            if let Some(subscription) = subscribe(&address, &dialer).await {
                backoff = Backoff::default();
                listen(&sentinels, at, &address, &dialer, subscription).await;
            }
            tokio::time::sleep(backoff.next()).await;
        }
        tokio::time::sleep(REST).await;
    }
}

async fn subscribe(address: &Address, dialer: &Dialer) -> Option<PubSub> {
    let until = Instant::now() + dialer.settings.connect_timeout;
    let subscribed = async {
        let socket = stream::open(address, dialer.tls().as_ref(), until).await.ok()?;
        let credentials = &dialer.sentinel_credentials;
        let mut who = RedisConnectionInfo::default().set_skip_set_lib_name();
        if let Some(password) = &credentials.password {
            who = who.set_password(password.reveal());
        }
        if let Some(username) = &credentials.username {
            who = who.set_username(username);
        }
        let mut subscription = PubSub::new(&who, socket).await.ok()?;
        subscription.subscribe(&CHANNELS).await.ok()?;
        Some(subscription)
    };
    tokio::time::timeout_at(until, subscribed).await.ok()?
}

/// Until this sentinel says no more.
async fn listen(sentinels: &Weak<Sentinels>, at: usize, address: &Address, dialer: &Dialer, subscription: PubSub) {
    let (mut asking, mut messages) = subscription.split();
    // It may have happened before the subscription, and a message does not say what every sentinel means by it: ask, and
    // again if that failed.
    let (mut ask, mut is_news, mut failed) = (true, false, false);
    loop {
        if ask {
            let Some(sentinels) = sentinels.upgrade() else { return };
            let deadline = Instant::now() + dialer.settings.connect_timeout;
            match sentinels.ask_one(address, dialer, deadline).await {
                Ok(Some(primary)) => {
                    sentinels.follow(at, &primary, is_news);
                    (ask, failed) = (false, false);
                }
                Err(_) if !failed => failed = true,
                // It cannot be asked, or has lost its configuration: another one may know.
                Ok(None) | Err(_) => return,
            }
        }
        match timeout(SILENCE, messages.next()).await {
            Ok(Some(_)) => (ask, is_news) = (true, true),
            Ok(None) => return,
            Err(_) => {
                let is_there = timeout(dialer.settings.connect_timeout, asking.ping::<redis::Value>()).await;
                if !matches!(is_there, Ok(Ok(_))) {
                    return;
                }
            }
        }
    }
}
