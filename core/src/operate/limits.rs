//! How much of a queue may run at once and start in a time, over all processes and languages. The limits stand on the server
//! and the script that grants leases keeps to them, in the server's time.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::operate::name_limits::{self, NameLimits};
use crate::queue::Queue;
use crate::script::{Declared, Limit, LimitReply, LimitsReply};
use crate::value::error::Error;
use crate::value::rate::Rate;

/// The most that a limit of concurrency can be.
pub const MAX_CONCURRENCY: u32 = 1_000_000;

/// The limits of a queue; none unless set.
///
/// ```
/// use std::time::Duration;
///
/// let limits = duly::Limits::new().concurrency(5).rate(100, Duration::from_secs(1));
/// assert_eq!(limits.concurrency, Some(5));
/// ```
#[non_exhaustive]
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Limits {
    /// The most jobs that are reserved at once, in all workers together.
    pub concurrency: Option<u32>,
    /// How many jobs are reserved in a period. In any span of time they are at most `jobs` more than the rate.
    pub rate: Option<Rate>,
    /// The limits of single job names, beside those of the whole queue.
    pub names: BTreeMap<String, NameLimits>,
}

impl Limits {
    /// None.
    pub fn new() -> Self {
        Self::default()
    }

    /// At most this many jobs reserved at once.
    #[must_use]
    pub fn concurrency(mut self, most: u32) -> Self {
        self.concurrency = Some(most);
        self
    }

    /// At most this many jobs start in this time.
    #[must_use]
    pub fn rate(mut self, jobs: u32, per: Duration) -> Self {
        self.rate = Some(Rate { jobs, per });
        self
    }

    /// Limits of the jobs of this name. Jobs of other names pass by those that it holds back.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>, limits: NameLimits) -> Self {
        self.names.insert(name.into(), limits);
        self
    }

    fn check(&self) -> Result<(), Error> {
        if self.concurrency.is_some_and(|most| most == 0 || most > MAX_CONCURRENCY) {
            return Err(Error::invalid("a limit of concurrency is 1 to 1000000 jobs: use pause to stop a queue"));
        }
        name_limits::check(&self.names)?;
        self.rate.map_or(Ok(()), Rate::check).map_err(Error::invalid)
    }

    /// As `meta.limits` holds those of the queue: `<concurrency>;<jobs>;<microseconds>`, 0 for none; empty without any.
    pub(crate) fn written(&self) -> String {
        if self.concurrency.is_none() && self.rate.is_none() {
            return String::new();
        }
        let (jobs, per_us) = self.rate.map_or((0, 0), |rate| (rate.jobs, rate.per.as_micros()));
        format!("{};{jobs};{per_us}", self.concurrency.unwrap_or(0))
    }

    /// Text that duly did not write is no limit, here as in the script.
    fn read(text: &str) -> Self {
        let numbers: Option<Vec<u64>> = text.split(';').map(|part| part.parse().ok()).collect();
        let Some([most, jobs, per_us]) = numbers.as_deref() else { return Self::default() };
        let concurrency = u32::try_from(*most).ok().filter(|&most| most > 0);
        Self { concurrency, rate: Rate::read(*jobs, *per_us), names: BTreeMap::new() }
    }
}

/// Which limit keeps jobs back just now, as a sentence.
pub(crate) fn held_back(reply: &LimitsReply, reserved: i64, now_ms: i64) -> Option<String> {
    let limits = Limits::read(&reply.limits);
    if let Some(most) = limits.concurrency.filter(|&most| reserved >= i64::from(most)) {
        return Some(format!("the queue's concurrency limit of {most} is reached"));
    }
    let left = limits.rate?.next_start_in(&reply.rate_at, now_ms)?;
    Some(format!("the queue's rate limit lets the next job start in {left} s"))
}

impl Queue {
    /// Limits how many jobs run at once, and how many start in a period, over all workers of all processes and languages.
    ///
    /// The limits apply from the next reserve on; running jobs are not stopped. Jobs that are held back keep their order. A
    /// place is taken from the reserve on and given back by ack, fail, release or cancel, or by the end of the lease; a
    /// start counts when the job is reserved. The new limits replace all earlier ones; [`Limits::new`] removes them. Recent
    /// starts still count when limits are set again. Errors: `InvalidArgument`.
    ///
    /// Limits of a name hold back jobs of that name only. Its concurrency counts the jobs that are reserved when it is set,
    /// up to 1,000 of the queue. When a limit is removed, the jobs that it held back are handed out again.
    ///
    /// ```no_run
    /// # async fn doc(queue: duly::Queue) -> Result<(), duly::Error> {
    /// use std::time::Duration;
    ///
    /// queue.set_limits(&duly::Limits::new().concurrency(5).rate(100, Duration::from_secs(1))).await?;
    /// let mail = duly::NameLimits::new().concurrency(5).rate(100, Duration::from_secs(60));
    /// queue.set_limits(&duly::Limits::new().name("mail.send", mail)).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn set_limits(&self, limits: &Limits) -> Result<(), Error> {
        limits.check().map_err(self.during("set_limits"))?;
        let of_names = name_limits::items(&limits.names);
        let limit = Limit { limits: limits.written() }.with(of_names).during("set_limits");
        match self.run(limit).await? {
            LimitReply::Set => Ok(()),
            LimitReply::Busy => Err(self.during("set_limits")(Error::invalid(
                "limits of too many names were taken away while their jobs run: set these again when those have ended",
            ))),
        }
    }

    /// The limits that are set.
    pub async fn limits(&self) -> Result<Limits, Error> {
        let reply = self.counts_now("limits").await?;
        Ok(Limits { names: name_limits::read(&reply.names), ..Limits::read(&reply.limits.limits) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::error::ErrorKind;
    use crate::value::rate::{MAX_RATE_JOBS, MAX_RATE_PER};

    #[test]
    fn limits_come_back_as_they_were_written() {
        let second = Duration::from_secs(1);
        let all = [
            (Limits::new(), ""),
            (Limits::new().concurrency(5), "5;0;0"),
            (Limits::new().rate(100, second), "0;100;1000000"),
            (Limits::new().concurrency(1).rate(3, second), "1;3;1000000"),
        ];
        for (limits, text) in all {
            assert_eq!(limits.written(), text);
            assert_eq!(Limits::read(text), limits);
        }
        for foreign in ["x", "1;2", "1;2;3;4", "-1;0;0", "a;b;c"] {
            assert_eq!(Limits::read(foreign), Limits::new());
        }
    }

    #[test]
    fn limits_that_make_no_sense_are_refused() {
        let hour = Duration::from_secs(3600);
        let wrong = [
            Limits::new().concurrency(0),
            Limits::new().concurrency(MAX_CONCURRENCY + 1),
            Limits::new().rate(0, hour),
            Limits::new().rate(MAX_RATE_JOBS + 1, hour),
            Limits::new().rate(1, Duration::from_micros(999)),
            Limits::new().rate(1, MAX_RATE_PER + Duration::from_millis(1)),
            Limits::new().rate(MAX_RATE_JOBS, MAX_RATE_PER),
        ];
        for limits in wrong {
            assert_eq!(limits.check().unwrap_err().kind(), ErrorKind::InvalidArgument, "{limits:?}");
        }
        assert!(Limits::new().concurrency(MAX_CONCURRENCY).rate(MAX_RATE_JOBS, hour).check().is_ok());
    }

    #[test]
    fn it_is_said_which_limit_holds_jobs_back() {
        let reply =
            |limits: &str, rate_at: &str| LimitsReply { limits: limits.to_owned(), rate_at: rate_at.to_owned() };
        assert_eq!(held_back(&reply("", ""), 9, 0), None);
        assert_eq!(held_back(&reply("5;0;0", ""), 4, 0), None);
        assert!(held_back(&reply("5;0;0", ""), 5, 0).unwrap().ends_with("limit of 5 is reached"));
        assert!(held_back(&reply("0;2;1000000", "11000000;0"), 0, 10_000).unwrap().ends_with("in 0.5 s"));
        assert_eq!(held_back(&reply("0;2;1000000", "11000000;0"), 0, 10_500), None);
    }
}
