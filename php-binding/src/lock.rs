//! `Duly\Lock`.

use std::time::{Duration, Instant};

use duly::blocking::{self, Interrupt};
use duly::{Error, ErrorKind, LockOptions};
use ext_php_rs::convert::IntoZval;
use ext_php_rs::flags::ClassFlags;
use ext_php_rs::prelude::*;
use ext_php_rs::types::{ZendCallable, Zval};
use ext_php_rs::zend::ClassEntry;

use crate::call::{self, guarded};
use crate::client::Client;
use crate::convert::{Text, given, millis, span};
use crate::error::Fault;
use crate::job::Job;
use crate::record::signed;
use crate::waiting::Signals;

/// How long the end of an object, or of a block that has failed, waits for the server. The background goes on with it, as long as the process lives.
const FAREWELL: Duration = Duration::from_secs(1);

/// A lock that is held, and renewed by a native thread until it is released or the object is gone.
#[php_class]
#[php(name = "Duly\\Lock")]
#[php(flags = ClassFlags::Final)]
pub struct Lock {
    lock: blocking::Lock,
}

impl From<blocking::Lock> for Lock {
    fn from(lock: blocking::Lock) -> Self {
        Self { lock }
    }
}

#[php_impl]
impl Lock {
    /// Its name.
    #[php(getter)]
    pub fn name(&self) -> String {
        self.lock.name().to_owned()
    }

    /// The fencing token: greater than that of every earlier holder.
    #[php(getter)]
    pub fn token(&self) -> i64 {
        signed(self.lock.token())
    }

    /// For how many seconds it was waited for; of `Job::lock`, since the job first met it taken.
    #[php(getter)]
    pub fn waited(&self) -> f64 {
        self.lock.waited().as_secs_f64()
    }

    /// Is it held, by what the server has said?
    pub fn is_held(&self) -> bool {
        self.lock.is_held()
    }

    /// Gives it up. Gives whether it was held until now.
    pub fn release(&self) -> PhpResult<bool> {
        Ok(self.lock.release(&mut Signals)?)
    }
}

/// A program that ends takes the thread with it that would do this in the background.
impl Drop for Lock {
    fn drop(&mut self) {
        if self.lock.is_held() {
            let _ = self.lock.release(&mut Until(Instant::now() + FAREWELL));
        }
    }
}

/// Runs nothing of PHP: an exception may be on its way.
struct Until(Instant);

impl Interrupt for Until {
    type Error = Error;

    fn check(&mut self) -> Result<(), Error> {
        if Instant::now() < self.0 { Ok(()) } else { Err(Error::new(ErrorKind::Interrupted, "it takes too long")) }
    }
}

pub fn lock_options(ttl: Option<&Zval>, wait: Option<&Zval>) -> Result<LockOptions, Fault> {
    let mut options = LockOptions::new().wait(span("wait", given(wait), Duration::ZERO)?);
    if let Some(ttl) = given(ttl) {
        options = options.ttl(millis("ttl", ttl)?.to_duration());
    }
    Ok(options)
}

impl Client {
    pub fn take_lock(&self, name: Text, ttl: Option<&Zval>, wait: Option<&Zval>) -> Result<Lock, Fault> {
        let (name, options) = (name.utf8("name")?, lock_options(ttl, wait)?);
        Ok(self.blocking()?.lock(&name, &options, &mut Signals)?.into())
    }

    pub fn run_with_lock(
        &self,
        name: Text,
        run: &Zval,
        ttl: Option<&Zval>,
        wait: Option<&Zval>,
    ) -> Result<Zval, Fault> {
        let Ok(run) = ZendCallable::new(run) else { return Err(Fault::invalid("run must be callable")) };
        let lock = self.take_lock(name, ttl, wait)?;
        let lock =
            call::Guarded::from(lock.into_zval(false).map_err(|_| Fault::invalid("the lock is no value of PHP"))?);
        let Some(held) = lock.extract::<&Lock>() else { return Err(Fault::invalid("it is no lock")) };
        match guarded(|| run.try_call(vec![&*lock])) {
            Ok(Ok(answer)) => {
                let answer = call::Guarded::from(answer);
                if is_generator(&answer) {
                    let ended = answer.release();
                    held.leave_now();
                    ended?;
                    return Err(Fault::invalid(
                        "run gave a generator, whose code would run without the lock: loop over it in run, or do not yield",
                    ));
                }
                held.lock.leave(&mut Signals)?;
                Ok(answer.take())
            }
            Ok(Err(error)) => Err(Fault::invalid(format!("run could not be called: {error}"))),
            Err(fault) => {
                held.leave_now();
                Err(fault)
            }
        }
    }
}

impl Lock {
    /// At the end of a block that has failed.
    fn leave_now(&self) {
        let _ = self.lock.leave(&mut Until(Instant::now() + FAREWELL));
    }
}

/// Nobody extends PHP's class: it is final.
fn is_generator(value: &Zval) -> bool {
    value.object().is_some_and(|object| object.get_class_name().is_ok_and(|class| class == "Generator"))
}

impl Job {
    pub fn take_lock(
        &self,
        name: Text,
        retry_after: &Zval,
        ttl: Option<&Zval>,
        wait: Option<&Zval>,
    ) -> Result<Lock, Fault> {
        let (name, options) = (name.utf8("name")?, lock_options(ttl, wait)?);
        millis("retryAfter", retry_after)?;
        match self.job.lock(&name, &options, &mut Signals)? {
            Ok(lock) => Ok(lock.into()),
            Err(taken) => Err(release(retry_after, &taken.to_string())?),
        }
    }
}

/// `Duly\Release`, thrown; without the Composer package, to which it belongs, the error that the lock is taken.
fn release(after: &Zval, reason: &str) -> Result<Fault, Fault> {
    let Some(class) = guarded(|| ClassEntry::try_find("Duly\\Release"))? else {
        return Err(Error::new(ErrorKind::Locked, "another one holds the lock that the job needs").into());
    };
    let mut thrown = class.new();
    call::method(&thrown, "__construct", vec![&after.shallow_clone(), &reason])?;
    let mut value = Zval::new();
    value.set_object(&mut thrown);
    ext_php_rs::exception::throw_object(value).map_err(|_| Fault::invalid("Duly\\Release cannot be thrown"))?;
    Ok(Fault::Thrown)
}
