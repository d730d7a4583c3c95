//! Locks: one holder at a time, over all processes and languages that use the same server.
//!
//! The server keeps of a lock who holds it, until when, and the last fencing token. Its holder renews it three times in its time to
//! live, over connections and in a thread of its own, so that a busy program keeps it. A fencing token grows with each holder
//! (Martin Kleppmann, "How to do distributed locking", 2016); it follows the server's clock, as those of jobs do.

mod asked;
mod claim;
mod held;
mod owner;

pub use claim::Claim;
pub use held::Lock;

use std::time::Duration;

use crate::queue::{Client, Job};
use crate::value::error::{Error, ErrorKind};
use crate::value::name;
use crate::value::time::{Millis, whole_ms};

use self::asked::Asked;
use self::owner::Owner;

/// How long a lock lasts after its holder was last heard of, unless it says otherwise.
pub const DEFAULT_LOCK_TTL: Duration = Duration::from_secs(30);
/// A shorter one could not be renewed in time.
const SHORTEST_TTL: Duration = Duration::from_millis(100);
const LONGEST_TTL: Duration = Duration::from_secs(24 * 3600);
/// How a lock is taken.
#[derive(Debug, Clone)]
pub struct LockOptions {
    ttl: Duration,
    wait: Duration,
}

impl LockOptions {
    /// Renewed within 30 s, and not waited for.
    pub fn new() -> Self {
        Self { ttl: DEFAULT_LOCK_TTL, wait: Duration::ZERO }
    }

    /// The time to live, 100 ms to 24 h (default 30 s): how long others wait when the holder has died. It is renewed while it is held.
    /// With less than some five seconds a broken connection costs the lock.
    #[must_use]
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Duration::from_millis(whole_ms(ttl)); // as the server counts
        self
    }

    /// How long to wait while another one holds it (default: not at all).
    #[must_use]
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    fn check(&self) -> Result<(), Error> {
        if (SHORTEST_TTL..=LONGEST_TTL).contains(&self.ttl) {
            return Ok(());
        }
        Err(Error::invalid(format!("the ttl of a lock is 0.1 s to 24 h, not {} s", self.ttl.as_secs_f64())))
    }
}

impl Default for LockOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl Client {
    /// Takes the lock of this name (1 to 128 of the characters `A-Z a-z 0-9 . _ : -`), or waits until it is free: for the wake-up of
    /// who gives it up, and for the end of who has died. It is renewed until it is [released](Lock::release) or dropped. Waiters are
    /// not served in order.
    ///
    /// A lock is as safe as one server: after a failover that lost the last writes two may hold it. So give [`Lock::token`] to what
    /// it protects, which can refuse a smaller one. Jobs of which one at a time may run need no lock but a `key`, or a limit
    /// ([`Queue::set_limits`](crate::Queue::set_limits)).
    ///
    /// ```no_run
    /// # async fn doc(client: duly::Client) -> Result<(), duly::Error> {
    /// use std::time::Duration;
    ///
    /// let lock = client.lock("stock:42", &duly::LockOptions::new().wait(Duration::from_secs(5))).await?;
    /// // ... `UPDATE stock SET ..., fence = :token WHERE id = 42 AND fence < :token`
    /// println!("held with the token {}", lock.token());
    /// lock.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Errors: `Locked` if another one holds it when the wait is over; `InvalidArgument`.
    pub async fn lock(&self, name: &str, options: &LockOptions) -> Result<Lock, Error> {
        take(Owner::new(self, name), name, options).await?.map_err(|_| {
            let message = "another one holds it: wait for it, or try again later";
            of_lock(Error::new(ErrorKind::Locked, message), name)
        })
    }

    /// The same for a job, which may have met it before.
    pub(crate) async fn lock_for(
        &self,
        job: &Job,
        name: &str,
        options: &LockOptions,
    ) -> Result<Result<Lock, LockTaken>, Error> {
        Ok(for_job(job, name, take(Owner::new(self, name), name, options).await?))
    }

    /// The same over connections of the background: those of a blocking client stand still while nobody blocks.
    pub(crate) async fn lock_in_background(
        &self,
        job: &Job,
        name: &str,
        options: &LockOptions,
    ) -> Result<Result<Lock, LockTaken>, Error> {
        Ok(for_job(job, name, take(Owner::in_background(self, name), name, options).await?))
    }
}

/// If another one holds it when the wait is over, the server's time of then.
async fn take(owner: Result<Owner, Error>, name: &str, options: &LockOptions) -> Result<Result<Lock, Millis>, Error> {
    name::check_lock(name).and_then(|()| options.check()).map_err(|error| of_lock(error, name))?;
    let take = async { Asked::of(owner?, options.ttl).take(options.wait).await };
    take.await.map_err(|error| of_lock(error, name))
}

/// A job may have met it before.
fn for_job(job: &Job, name: &str, taken: Result<Lock, Millis>) -> Result<Lock, LockTaken> {
    let before = LockTaken::read(&job.envelope.error, name);
    taken.map(|lock| lock.waited_since(before)).map_err(|now| {
        let since = before.unwrap_or(now);
        LockTaken { name: name.to_owned(), since, waited: now.saturating_sub(since).to_duration() }
    })
}

impl Job {
    /// Takes a lock for the run of this job; or says since when the job has met it taken, of one run after the other, so that its
    /// handler gives it back for a while ([`worker::Job::lock`](crate::worker::Job::lock)).
    ///
    /// Errors: as [`Client::lock`], but for `Locked`.
    pub async fn lock(&self, name: &str, options: &LockOptions) -> Result<Result<Lock, LockTaken>, Error> {
        self.part().client.lock_for(self, name, options).await
    }
}

/// Another one holds the lock that a job needs. As text it is what is kept with the job that is given back for that, as its last error.
#[derive(Debug, Clone)]
pub struct LockTaken {
    name: String,
    since: Millis,
    waited: Duration,
}

impl LockTaken {
    /// How long ago the job met it for the first time.
    pub fn waited(&self) -> Duration {
        self.waited
    }

    fn beginning(name: &str) -> String {
        format!("waits for the lock '{name}' since ")
    }

    /// Since when, from the text that the run before has left.
    fn read(error: &str, name: &str) -> Option<Millis> {
        Millis::from_unix_seconds(error.strip_prefix(&Self::beginning(name))?.parse().ok()?).ok()
    }
}

impl std::fmt::Display for LockTaken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{:.3}", Self::beginning(&self.name), self.since.as_seconds())
    }
}

fn of_lock(error: Error, name: &str) -> Error {
    error.during("lock").of_lock(name)
}
