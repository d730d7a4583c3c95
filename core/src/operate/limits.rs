//! How much of a queue may run at once and start in a time, over all processes and languages. The limits stand on the server
//! and the script that grants leases keeps to them, in the server's time. To it the queue is one more name (`lua/lib/limits/limited.lua`).

use std::collections::BTreeMap;
use std::time::Duration;

use crate::queue::{Part, Queue};
use crate::script::{Declared, Digits, LimitReply, LimitUsage, LimitsReply, SetLimits};
use crate::value::error::Error;
use crate::value::name;
use crate::value::rate::Rate;

/// The most that a limit of concurrency can be.
pub const MAX_CONCURRENCY: u32 = 1_000_000;
/// The most that a limit of a queue's length can be.
pub const MAX_LENGTH: u64 = 1_000_000_000;
/// The most names of a queue that may have limits.
pub const MAX_LIMITED_NAMES: usize = 100;

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
    /// How many jobs the queue takes: one more is refused with `QueueFull`. All count but failed ones.
    pub max_length: Option<u64>,
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

    /// The queue takes so many jobs at the most: a push of more is refused with `QueueFull`, and nothing of that call is stored. Delayed,
    /// ready and reserved jobs count, and failed ones do not. Jobs that come back from a worker, are requeued, or come over a bridge are
    /// never refused; a schedule skips a slot.
    #[must_use]
    pub fn max_length(mut self, most: u64) -> Self {
        self.max_length = Some(most);
        self
    }

    fn check(&self) -> Result<(), Error> {
        if self.max_length.is_some_and(|most| most == 0 || most > MAX_LENGTH) {
            return Err(Error::invalid(format!(
                "the length of a queue is 1 to {MAX_LENGTH} jobs: leave it out for none"
            )));
        }
        self.of_queue().check("a limit of concurrency", "use pause to stop a queue").map_err(Error::invalid)?;
        if self.names.len() > MAX_LIMITED_NAMES {
            return Err(Error::invalid(format!("at most {MAX_LIMITED_NAMES} names of a queue have limits")));
        }
        for (name, limit) in &self.names {
            name::check_handler(name)?;
            if limit == &NameLimits::new() {
                return Err(Error::invalid(format!(
                    "the limits of a name are a concurrency, a rate or both: leave out the name '{name}' to give it none"
                )));
            }
            let checked =
                limit.check("the concurrency of a name", &format!("leave out the name '{name}' to give it none"));
            checked.map_err(|flaw| Error::invalid(format!("the limits of the name '{name}': {flaw}")))?;
        }
        Ok(())
    }

    /// The same with every number of jobs changed.
    fn scaled(&self, scale: impl Fn(u64) -> u64) -> Self {
        let scale_small = |jobs: u32| u32::try_from(scale(jobs.into())).unwrap_or(u32::MAX);
        let of = |limit: &NameLimits| NameLimits {
            concurrency: limit.concurrency.map(scale_small),
            rate: limit.rate.map(|rate| Rate { jobs: scale_small(rate.jobs), ..rate }),
        };
        let NameLimits { concurrency, rate } = of(&self.of_queue());
        let names = self.names.iter().map(|(name, limit)| (name.clone(), of(limit))).collect();
        Self { concurrency, rate, names, max_length: self.max_length.map(&scale) }
    }

    /// That of the queue as a whole.
    fn of_queue(&self) -> NameLimits {
        NameLimits { concurrency: self.concurrency, rate: self.rate }
    }

    /// As the script takes them; the queue has no name.
    fn items(&self) -> impl Iterator<Item = (&str, String)> + Clone {
        let of_queue = Some(self.of_queue()).filter(|limit| limit != &NameLimits::new());
        let of_names = self.names.iter().map(|(name, limit)| (name.as_str(), limit.written()));
        of_queue.map(|limit| ("", limit.written())).into_iter().chain(of_names)
    }

    /// What `meta.limits` says. Text that duly did not write is no limit, here as in the script.
    fn read(text: &str) -> Self {
        let mut limits = Self::new();
        let length = text.split('\n').find_map(|line| line.strip_prefix("max_length;"));
        limits.max_length = length.and_then(|most| most.parse().ok()).filter(|&most| most > 0);
        for line in lines(text) {
            if line.number == QUEUE {
                (limits.concurrency, limits.rate) = (line.limit.concurrency, line.limit.rate);
            } else if line.limit != NameLimits::new() {
                limits.names.insert(line.name.to_owned(), line.limit);
            }
        }
        limits
    }
}

/// The limits of the jobs of one name.
///
/// ```
/// use std::time::Duration;
///
/// let of_name = duly::NameLimits::new().concurrency(5).rate(100, Duration::from_secs(60));
/// let limits = duly::Limits::new().name("mail.send", of_name);
/// assert_eq!(limits.names["mail.send"].concurrency, Some(5));
/// assert_eq!(limits.names["mail.send"].rate.unwrap().jobs, 100);
/// ```
#[non_exhaustive]
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NameLimits {
    /// The most jobs of this name that are reserved at once, in all workers together.
    pub concurrency: Option<u32>,
    /// How many jobs of this name are reserved in a time, as [`Limits::rate`](crate::Limits) says it of a queue.
    pub rate: Option<Rate>,
}

impl NameLimits {
    /// None.
    pub fn new() -> Self {
        Self::default()
    }

    /// At most this many jobs of the name reserved at once.
    #[must_use]
    pub fn concurrency(mut self, most: u32) -> Self {
        self.concurrency = Some(most);
        self
    }

    /// At most this many jobs of the name start in this time.
    #[must_use]
    pub fn rate(mut self, jobs: u32, per: Duration) -> Self {
        self.rate = Some(Rate { jobs, per });
        self
    }

    fn check(&self, what: &str, otherwise: &str) -> Result<(), String> {
        if self.concurrency.is_some_and(|most| most == 0 || most > MAX_CONCURRENCY) {
            return Err(format!("{what} is 1 to {MAX_CONCURRENCY} jobs: {otherwise}"));
        }
        self.rate.map_or(Ok(()), Rate::check).map_err(str::to_owned)
    }

    /// `<concurrency>;<jobs>:<microseconds>`, with nothing where there is no limit.
    fn written(&self) -> String {
        let most = self.concurrency.map(|most| most.to_string()).unwrap_or_default();
        let rate = self.rate.map(|rate| format!("{}:{}", rate.jobs, rate.per.as_micros())).unwrap_or_default();
        format!("{most};{rate}")
    }
}

/// The number of the queue's own limit.
const QUEUE: u64 = 0;

/// A line of `meta.limits`.
struct Line<'a> {
    number: u64,
    /// None: it was taken away, and the line is kept until the last job is gone.
    limit: NameLimits,
    name: &'a str,
}

/// A name may have semicolons, what is before it has none of its own.
fn lines(text: &str) -> impl Iterator<Item = Line<'_>> {
    text.split('\n').filter_map(|line| {
        let mut parts = line.splitn(4, ';');
        let (number, most, rate, name) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let digits = |text: &str| -> Option<Option<u64>> {
            if text.is_empty() { Some(None) } else { text.parse().ok().map(Some) }
        };
        let (jobs, per_us) = rate.split_once(':').unwrap_or((rate, ""));
        let concurrency = digits(most)?.and_then(|most| u32::try_from(most).ok()).filter(|&most| most > 0);
        let rate = digits(jobs)?.zip(digits(per_us)?).and_then(|(jobs, per_us)| Rate::read(jobs, per_us));
        Some(Line { number: number.parse().ok()?, limit: NameLimits { concurrency, rate }, name })
    })
}

impl Line<'_> {
    /// Does it keep jobs back just now? As a sentence.
    fn held_back(&self, usage: &LimitUsage, now_ms: i64) -> Option<String> {
        let name = self.name;
        if let Some(most) = self.limit.concurrency.filter(|&most| usage.count >= i64::from(most)) {
            return Some(match self.number {
                QUEUE => format!("the queue's concurrency limit of {most} is reached"),
                _ => format!("the concurrency limit of {most} of the name '{name}' is reached"),
            });
        }
        let left = self.limit.rate?.next_start_in(&usage.seen, now_ms)?;
        Some(match self.number {
            QUEUE => format!("the queue's rate limit lets the next job start in {left} s"),
            _ => format!("the rate limit of the name '{name}' lets its next job start in {left} s"),
        })
    }
}

/// Which limits keep jobs back just now, as a sentence: that of the queue, or those of names, of those whose usage the reply has.
pub(crate) fn held_back(reply: &LimitsReply, now_ms: i64) -> Option<String> {
    let of = |line: &Line<'_>| reply.usage.iter().find(|usage| usage.number == line.number);
    let held = lines(&reply.text).filter_map(|line| Some((line.number, line.held_back(of(&line)?, now_ms)?)));
    let held: Vec<_> = held.collect();
    if let Some((_, said)) = held.iter().find(|(number, _)| *number == QUEUE) {
        return Some(said.clone());
    }
    Some(held.into_iter().map(|(_, said)| said).collect::<Vec<_>>().join("; ")).filter(|said| !said.is_empty())
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
    /// The parts of a partitioned queue know nothing of each other, so each keeps to its share, rounded down: all together never
    /// exceed the limits, and stay below them while the work is spread unevenly. `InvalidArgument` also where a share is less than
    /// one job.
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
        let parts = self.each_part().len() as u64;
        limits.check().map_err(self.during("set_limits"))?;
        let shares = limits.scaled(|jobs| jobs / parts);
        shares.check().map_err(|_| {
            let why = format!("each of the queue's {parts} parts keeps to its share: a limit is {parts} jobs at least");
            self.during("set_limits")(Error::invalid(why))
        })?;
        for (number, part) in self.each_part().iter().enumerate() {
            part.set_limits(&shares).await.map_err(|error| self.behind_parts(number, error))?;
        }
        Ok(())
    }

    /// The limits that are set; of a partitioned queue those of all parts together, as the first part has its share.
    pub async fn limits(&self) -> Result<Limits, Error> {
        let (first, others) = self.first_and_others();
        let parts = others.len() as u64 + 1;
        let reply = first.counts_now("limits").await?;
        Ok(Limits::read(&reply.limits.text).scaled(|jobs| jobs.saturating_mul(parts)))
    }
}

impl Part {
    async fn set_limits(&self, limits: &Limits) -> Result<(), Error> {
        match self.run(SetLimits { max_length: limits.max_length.map(Digits) }.with(limits.items())).await? {
            LimitReply::Set => Ok(()),
            LimitReply::Busy => Err(self.during("set_limits")(Error::invalid(
                "limits of too many names were taken away while their jobs run: set these again when those have ended",
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::error::ErrorKind;
    use crate::value::rate::{MAX_RATE_JOBS, MAX_RATE_PER};

    const SECOND: Duration = Duration::from_secs(1);

    fn taken(limits: &Limits) -> Vec<String> {
        limits.items().flat_map(|(name, limit)| [name.to_owned(), limit]).collect()
    }

    #[test]
    fn limits_come_back_as_they_were_written() {
        let five = NameLimits::new().concurrency(5);
        let all = [
            (Limits::new(), vec![]),
            (Limits::new().concurrency(5), vec!["", "5;"]),
            (Limits::new().rate(100, SECOND), vec!["", ";100:1000000"]),
            (Limits::new().concurrency(1).rate(3, SECOND), vec!["", "1;3:1000000"]),
            (Limits::new().concurrency(1).name("a;b", five.clone()), vec!["", "1;", "a;b", "5;"]),
            (Limits::new().name("3:4;", five.rate(7, SECOND)), vec!["3:4;", "5;7:1000000"]),
        ];
        for (limits, expected) in all {
            let taken = taken(&limits);
            assert_eq!(taken, expected);
            let line = |(number, pair): (usize, &[String])| {
                let number = if pair[0].is_empty() { 0 } else { number + 1 };
                format!("{number};{};{}", pair[1], pair[0])
            };
            let text: Vec<_> = taken.chunks(2).enumerate().map(line).collect();
            assert_eq!(Limits::read(&text.join("\n")), limits);
        }
    }

    #[test]
    fn limits_that_were_taken_away_and_text_of_others_are_none() {
        let read = Limits::read("0;;;\n1;5;;mail.send\n2;;;gone\n3;;;");
        assert_eq!(read, Limits::new().name("mail.send", NameLimits::new().concurrency(5)));
        for foreign in ["?", "", "x;1;;a", "1;x;;a", "1;2", "1;2;3", "1;2;x:4;a", "5;0;0", "-1;;;", "1;0;;a", "1;;5;a"]
        {
            assert_eq!(Limits::read(foreign), Limits::new(), "{foreign}");
        }
    }

    #[test]
    fn limits_that_make_no_sense_are_refused() {
        let hour = Duration::from_secs(3600);
        let five = NameLimits::new().concurrency(5);
        let many = (0..=MAX_LIMITED_NAMES).map(|number| (number.to_string(), five.clone())).collect();
        let wrong = [
            Limits::new().concurrency(0),
            Limits::new().concurrency(MAX_CONCURRENCY + 1),
            Limits::new().rate(0, hour),
            Limits::new().rate(MAX_RATE_JOBS + 1, hour),
            Limits::new().rate(1, Duration::from_micros(999)),
            Limits::new().rate(1, MAX_RATE_PER + Duration::from_millis(1)),
            Limits::new().rate(MAX_RATE_JOBS, MAX_RATE_PER),
            Limits::new().name("", five.clone()),
            Limits::new().name("a\nb", five.clone()),
            Limits::new().name("a", NameLimits::new()),
            Limits::new().name("a", NameLimits::new().concurrency(0)),
            Limits::new().name("a", NameLimits::new().concurrency(MAX_CONCURRENCY + 1)),
            Limits::new().name("a", five.clone().rate(0, SECOND)),
            Limits::new().name("a", NameLimits::new().rate(1_000_000, 24 * hour)),
            Limits { names: many, ..Limits::new() },
        ];
        for limits in wrong {
            assert_eq!(limits.check().unwrap_err().kind(), ErrorKind::InvalidArgument, "{limits:?}");
        }
        assert!(Limits::new().concurrency(MAX_CONCURRENCY).rate(MAX_RATE_JOBS, hour).check().is_ok());
        assert!(Limits::new().name("a", five.rate(1, SECOND)).check().is_ok());
    }

    #[test]
    fn it_is_said_which_limits_hold_jobs_back() {
        let held = |text: &str, usage: &[(u64, i64, &str)]| {
            let usage = usage.iter().map(|&(number, count, seen)| LimitUsage { number, count, seen: seen.to_owned() });
            held_back(&LimitsReply { text: text.to_owned(), usage: usage.collect() }, 10_000)
        };
        assert_eq!(held("", &[]), None);
        assert_eq!(held("0;5;;", &[(0, 4, "")]), None);
        assert_eq!(held("0;5;;", &[(0, 5, "")]).unwrap(), "the queue's concurrency limit of 5 is reached");
        // Two a second, and both have started at 10 s.
        let rate = held("0;;2:1000000;", &[(0, 9, "11000000;0")]).unwrap();
        assert_eq!(rate, "the queue's rate limit lets the next job start in 0.5 s");
        let text = "1;5;;mail.send\n2;;;gone\n7;1;;other\n0;9;;";
        assert_eq!(held(text, &[(0, 8, ""), (1, 4, ""), (2, 9, ""), (7, 0, "")]), None);
        let said = held(text, &[(0, 8, ""), (1, 5, ""), (2, 9, ""), (7, 1, "")]).unwrap();
        assert_eq!(said.matches("is reached").count(), 2, "{said}");
        assert!(held(text, &[(0, 9, ""), (1, 5, "")]).unwrap().starts_with("the queue's"));
        assert_eq!(held(text, &[(1, 4, "")]), None, "only those of which the reply says something");
        let said = held("1;;2:1000000;mail\n2;3;2:1000000;sms", &[(1, 9, "11000000;0"), (2, 3, "11000000;0")]).unwrap();
        let (mail, sms) = said.split_once("; ").unwrap();
        assert_eq!(mail, "the rate limit of the name 'mail' lets its next job start in 0.5 s");
        assert_eq!(sms, "the concurrency limit of 3 of the name 'sms' is reached");
    }
}
