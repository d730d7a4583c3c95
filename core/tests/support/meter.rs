//! Counts what a server was asked, over one connection that was there before.

use std::time::{Duration, Instant};

use super::Server;

pub struct Meter(redis::Connection);

impl Meter {
    pub fn of(server: &Server) -> Self {
        Self(redis::Client::open(server.url()).unwrap().get_connection().unwrap())
    }

    fn info(&mut self, section: &str) -> String {
        redis::cmd("INFO").arg(section).query(&mut self.0).unwrap()
    }

    /// How many connections were made so far.
    pub fn dialed(&mut self) -> u64 {
        let info = self.info("stats");
        let count = info.lines().find_map(|line| line.strip_prefix("total_connections_received:")).unwrap();
        count.parse().unwrap()
    }

    /// How many connections of clients there are.
    pub fn connected(&mut self) -> usize {
        let listed: String = redis::cmd("CLIENT").arg("LIST").query(&mut self.0).unwrap();
        listed.matches(" name=duly").count()
    }

    /// How many of them wait for an element of a list.
    pub fn blocked(&mut self) -> usize {
        let info = self.info("clients");
        info.lines().find_map(|line| line.strip_prefix("blocked_clients:")).unwrap().parse().unwrap()
    }

    /// How often this command was called, by scripts too.
    pub fn calls(&mut self, command: &str) -> u64 {
        let prefix = format!("cmdstat_{command}:calls=");
        let info = self.info("commandstats");
        let count = info.lines().find_map(|line| line.strip_prefix(&prefix)).and_then(|rest| rest.split(',').next());
        count.map_or(0, |count| count.parse().unwrap())
    }

    /// Waits until it measures so.
    pub async fn until(&mut self, what: &str, mut is_so: impl FnMut(&mut Self) -> bool) {
        let started = Instant::now();
        while !is_so(self) {
            assert!(started.elapsed() < Duration::from_secs(60), "waited a minute for: {what}");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}
