//! Locks without async.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use super::{Client, Interrupt, Job};
use crate::lock::{self, LockOptions, LockTaken};
use crate::process::runtime::block_on;
use crate::value::error::Error;

/// See [`crate::Lock`].
#[derive(Debug)]
#[must_use = "a lock is given up when it is dropped"]
pub struct Lock {
    lock: lock::Lock,
}

impl Client {
    /// See [`crate::Client::lock`].
    pub fn lock<I: Interrupt>(&self, name: &str, options: &LockOptions, interrupt: &mut I) -> Result<Lock, I::Error> {
        let client = self.inner()?;
        let lock = block_on(client.lock(name, options), || interrupt.check())?;
        Ok(Lock { lock })
    }
}

impl Job {
    /// See [`crate::Job::lock`].
    pub fn lock<I: Interrupt>(
        &self,
        name: &str,
        options: &LockOptions,
        interrupt: &mut I,
    ) -> Result<Result<Lock, LockTaken>, I::Error> {
        let part = self.part()?;
        let lock = block_on(part.client.lock_for(&self.job, name, options), || interrupt.check())?;
        Ok(lock.map(|lock| Lock { lock }))
    }

    /// The same as a future, for a handler that waits on an event loop.
    #[doc(hidden)] // for the skins
    pub fn lock_in_background(
        &self,
        name: String,
        options: LockOptions,
    ) -> Result<impl Future<Output = Result<Result<lock::Lock, LockTaken>, Error>> + Send + 'static, Error> {
        let (client, job) = (self.part()?.client, Arc::clone(&self.job));
        Ok(async move { client.lock_in_background(&job, &name, &options).await })
    }
}

impl Lock {
    /// Its name.
    pub fn name(&self) -> &str {
        self.lock.name()
    }

    /// See [`crate::Lock::token`].
    pub fn token(&self) -> u64 {
        self.lock.token()
    }

    /// See [`crate::Lock::waited`].
    pub fn waited(&self) -> Duration {
        self.lock.waited()
    }

    /// See [`crate::Lock::is_held`].
    pub fn is_held(&self) -> bool {
        self.lock.is_held()
    }

    /// See [`crate::Lock::release`].
    pub fn release<I: Interrupt>(&self, interrupt: &mut I) -> Result<bool, I::Error> {
        block_on(self.lock.release(), || interrupt.check())
    }

    /// See [`crate::Lock::enter`].
    #[doc(hidden)] // for the skins
    pub fn enter(&self) -> Result<(), Error> {
        self.lock.enter()
    }

    /// See [`crate::Lock::leave`].
    #[doc(hidden)] // for the skins
    pub fn leave<I: Interrupt>(&self, interrupt: &mut I) -> Result<(), I::Error> {
        block_on(self.lock.leave(), || interrupt.check())
    }
}
