//! The one error type: what went wrong, doing what, to which queue and job, and whether trying again can help.
//!
//! The shape (kind + may-I-retry + operation + context) follows Apache `OpenDAL`'s error; the classes of doubt
//! (`Unreachable`: nothing was executed; `Timeout`: it may have been) come from outages that were reproduced.

use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use crate::value::plural::{counted, verb};
use crate::value::state::State;

/// The kind of an error. Every language maps each kind to one exception class of the same name.
// A new kind is also a class in `errors.py` and in `CLASSES` of `php-binding/src/error.rs`, both stubs, and a row of `docs/errors.md`; a test
// compares them (`test_every_kind_of_the_core_has_its_class_in_both_languages`).
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// An argument was refused before anything was sent: a bad queue name, a negative delay, data that is not JSON.
    InvalidArgument,
    /// The server is of another kind than the URL says: with TLS or without, a sentinel, part of a cluster or none, without a
    /// database of this number.
    WrongServer,
    /// The data, the error text or the key is longer than its limit. Nothing was sent.
    TooLarge,
    /// Another job already has this id or this key. [`Error::job_id`] is the id of the job that holds it.
    Duplicate,
    /// The lease of this job is lost (it ended and the job was taken back, or the job was settled or cancelled): another worker may
    /// run it now. Or a lock is no longer held.
    LeaseLost,
    /// Another one holds the lock. Wait for it, or try again later.
    Locked,
    /// There is no job with this id or key, or its state does not allow the operation.
    NotFound,
    /// A subscription was silent for so long that messages which it had not read are gone. Subscribe again.
    CutOff,
    /// The job whose result was waited for has failed for good. The message ends with its last error.
    JobFailed,
    /// There will be no result: the job was cancelled, purged or pushed without `result_ttl`, its result has expired, or
    /// there never was such a job.
    NoResult,
    /// The server could not be reached, and nothing of this call was executed, unless the message says what was done before.
    Unreachable,
    /// No answer came in time. The call may have been executed; a push with an id or a key can be repeated safely.
    Timeout,
    /// The server refused the user or the password, or one side's certificate is not to be trusted.
    AuthenticationFailed,
    /// The server's user (ACL) may not run a command or touch a key that duly needs. The message names it.
    PermissionDenied,
    /// The server is a read-only replica.
    ReadOnly,
    /// The server is loading its data, or is busy with a script; or ready jobs come faster than an audit can read them.
    Busy,
    /// The server has no memory left (`maxmemory`, policy `noeviction`) or no disk (AOF error). Nothing was stored.
    StorageFull,
    /// The queue has as many jobs as it takes ([`Limits::max_length`](crate::Limits::max_length)). Nothing was stored.
    QueueFull,
    /// The server may evict keys (`maxmemory-policy` is not `noeviction`): jobs could vanish, so duly refuses it.
    EvictionPolicy,
    /// The server, or a feature of it, is older than what the call needs.
    Unsupported,
    /// The job was stored, but not confirmed by as many replicas, or not by the disk, as was asked for.
    NotDurable,
    /// A key of this queue holds something that duly did not write. The message names the key.
    Corrupt,
    /// The queue was written by a newer version of duly.
    FormatTooNew,
    /// The server or a network box between answered something that is not a valid reply.
    Protocol,
    /// The embedded server could not be found or started.
    Embedded,
    /// The call was interrupted by the caller (a signal, a closed client).
    Interrupted,
    /// A defect in duly itself. Please report it.
    Internal,
}

impl ErrorKind {
    /// The kind as one word in `snake_case`, the same in every language (`Error.kind` in Python, `getKind()` in PHP).
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InvalidArgument => "invalid_argument",
            Self::WrongServer => "wrong_server",
            Self::TooLarge => "too_large",
            Self::Duplicate => "duplicate",
            Self::LeaseLost => "lease_lost",
            Self::Locked => "locked",
            Self::NotFound => "not_found",
            Self::CutOff => "cut_off",
            Self::JobFailed => "job_failed",
            Self::NoResult => "no_result",
            Self::Unreachable => "unreachable",
            Self::Timeout => "timeout",
            Self::AuthenticationFailed => "authentication_failed",
            Self::PermissionDenied => "permission_denied",
            Self::ReadOnly => "read_only",
            Self::Busy => "busy",
            Self::StorageFull => "storage_full",
            Self::QueueFull => "queue_full",
            Self::EvictionPolicy => "eviction_policy",
            Self::Unsupported => "unsupported",
            Self::NotDurable => "not_durable",
            Self::Corrupt => "corrupt",
            Self::FormatTooNew => "format_too_new",
            Self::Protocol => "protocol",
            Self::Embedded => "embedded",
            Self::Interrupted => "interrupted",
            Self::Internal => "internal",
        }
    }

    /// May the same call succeed later, without anybody changing it? True for outages, false for refusals.
    pub fn is_transient(self) -> bool {
        matches!(
            self,
            Self::Unreachable
                | Self::Timeout
                | Self::ReadOnly
                | Self::Busy
                | Self::StorageFull
                | Self::QueueFull
                | Self::Protocol
        )
    }
}

/// What a call can be about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Of {
    Queue,
    Lock,
    Topic,
}

/// An error of any duly call.
///
/// Its text is one lower-case line that names the operation, the queue and the job where there is one, and what to
/// do next. It never holds a job's data or a password. `{:?}` is that text behind the kind: what a `main` that returns an
/// error prints.
#[derive(Clone)]
pub struct Error {
    kind: ErrorKind,
    message: Cow<'static, str>,
    operation: Option<&'static str>,
    queue: Option<String>,
    /// Of what `queue` is the name.
    of: Of,
    job_id: Option<String>,
    job_state: Option<State>,
    batch_index: Option<u32>,
    is_partly_done: bool,
    would_double: bool,
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

impl Error {
    /// A new error of this kind. The message is lower-case and says what to do next.
    pub fn new(kind: ErrorKind, message: impl Into<Cow<'static, str>>) -> Self {
        Self {
            kind,
            message: message.into(),
            operation: None,
            queue: None,
            of: Of::Queue,
            job_id: None,
            job_state: None,
            batch_index: None,
            is_partly_done: false,
            would_double: false,
            source: None,
        }
    }

    pub(crate) fn invalid(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::InvalidArgument, message)
    }

    /// Which verb was running; the first caller that knows wins, so inner layers need not repeat it.
    #[must_use]
    pub fn during(mut self, operation: &'static str) -> Self {
        self.operation.get_or_insert(operation);
        self
    }

    /// Which queue the call was about; the first caller that knows wins.
    #[must_use]
    pub fn in_queue(mut self, queue: &str) -> Self {
        self.queue.get_or_insert_with(|| queue.to_owned());
        self
    }

    /// The call was about all queues, and not about one whose name it has.
    #[must_use]
    pub(crate) fn of_all_queues(mut self) -> Self {
        self.queue = None;
        self
    }

    /// Which lock the call was about.
    #[must_use]
    pub(crate) fn of_lock(mut self, name: &str) -> Self {
        (self.queue, self.of) = (Some(name.to_owned()), Of::Lock);
        self
    }

    /// Which topic the call was about.
    #[must_use]
    pub fn of_topic(mut self, name: &str) -> Self {
        (self.queue, self.of) = (Some(name.to_owned()), Of::Topic);
        self
    }

    /// Which job the call was about; the first caller that knows wins.
    #[must_use]
    pub fn of_job(mut self, id: &str) -> Self {
        self.job_id.get_or_insert_with(|| id.to_owned());
        self
    }

    /// In which state that job is.
    #[must_use]
    pub(crate) fn in_state(mut self, state: State) -> Self {
        self.job_state = Some(state);
        self
    }

    #[must_use]
    pub(crate) fn caused_by(mut self, source: impl StdError + Send + Sync + 'static) -> Self {
        self.source = Some(Arc::new(source));
        self
    }

    /// More words after the message, from a layer that knows more: which key, which command.
    #[must_use]
    pub(crate) fn adding(mut self, words: &str) -> Self {
        self.message = Cow::Owned(format!("{}; {words}", self.message));
        self
    }

    /// Which job of a batch is refused.
    #[must_use]
    pub(crate) fn at_index(mut self, index: usize) -> Self {
        self.batch_index = u32::try_from(index).ok();
        self
    }

    /// A batch failed, or a job of it; so many jobs of the batches before it are in. The index is that among all from now on.
    #[must_use]
    pub(crate) fn after_jobs(mut self, count: u64) -> Self {
        self.would_double |= count > 0;
        if self.kind == ErrorKind::NotDurable {
            self = self.adding("nothing behind this batch is pushed");
        }
        let index = self.batch_index.map(|index| u64::from(index).saturating_add(count));
        let before = pushed_before(count);
        if count > 0 {
            // Of that batch.
            self.message = self.message.replace(": nothing was stored", ": nothing of this batch was stored").into();
        }
        match index.filter(|_| self.kind != ErrorKind::NotDurable) {
            Some(index) => self.message = format!("{} (at index {index}; {before})", self.message).into(),
            None if count > 0 => self.message = format!("{} ({before})", self.message).into(),
            None => {}
        }
        self.batch_index = index.and_then(|index| u32::try_from(index).ok());
        self
    }

    /// A later one of several requests failed; so many jobs were, such as, removed by those before.
    #[must_use]
    pub(crate) fn after(self, jobs: u64, done: &str) -> Self {
        let were = verb(jobs, "was", "were");
        self.partly_done(&format!("{} {were} {done} before that", counted(jobs, "job")))
    }

    /// Of the jobs of a batch so many are pushed: the first ones, or those of some parts of the queue.
    #[must_use]
    pub(crate) fn partly_pushed(mut self, pushed: usize, count: usize, is_in_order: bool) -> Self {
        self.message = self.message.replace(": nothing was stored", "").replace(", nothing was executed", "").into();
        self.would_double = true;
        let are = verb(pushed as u64, "is", "are");
        let may_be_executed = matches!(self.kind, ErrorKind::Timeout | ErrorKind::Protocol | ErrorKind::Interrupted);
        let only_with_ids = "only if each has an id or key of yours";
        let words = if pushed == count {
            format!("all {count} jobs of this batch are pushed: do not push them again")
        } else if is_in_order && may_be_executed {
            format!(
                "the first {pushed} of the {count} jobs of this batch {are} pushed, and perhaps others: push those again {only_with_ids}"
            )
        } else if is_in_order {
            format!("the first {pushed} of the {count} jobs of this batch {are} pushed: push only the others again")
        } else {
            format!(
                "{pushed} of the {count} jobs of this batch {are} pushed, of some partitions: push all of them again {only_with_ids}"
            )
        };
        if is_in_order || pushed == count {
            self.batch_index = u32::try_from(pushed).ok();
        }
        self.partly_done(&words)
    }

    /// A part of the call was done, as these words say.
    #[must_use]
    pub(crate) fn partly_done(mut self, words: &str) -> Self {
        self.is_partly_done = true;
        self.message = self.message.replace("; nothing was changed", "").into();
        self.adding(words)
    }

    /// Was a part of the call done before its error? The message says what.
    #[doc(hidden)] // for the command
    pub fn is_partly_done(&self) -> bool {
        self.is_partly_done
    }

    /// The kind of the error.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The verb that was running, such as `push` or `reserve`.
    pub fn operation(&self) -> Option<&'static str> {
        self.operation
    }

    /// The queue that the call was about.
    pub fn queue(&self) -> Option<&str> {
        self.queue.as_deref().filter(|_| self.of == Of::Queue)
    }

    /// The job that the call was about; for [`ErrorKind::Duplicate`], the job that already holds the id or key.
    pub fn job_id(&self) -> Option<&str> {
        self.job_id.as_deref()
    }

    /// The state of that job, for [`ErrorKind::NotFound`] where the state does not allow the call.
    pub fn job_state(&self) -> Option<State> {
        self.job_state
    }

    /// Which job of a batch, or of a long push, the refusal is about (from 0), where one alone is refused; or the first that is not known to be
    /// pushed, where those before it are.
    pub fn batch_index(&self) -> Option<usize> {
        self.batch_index.map(|index| index as usize)
    }

    /// May the same call succeed later, without anybody changing it? False also if it would push jobs twice, because a part of its batch
    /// is in.
    pub fn is_transient(&self) -> bool {
        self.kind.is_transient() && !self.would_double
    }

    /// May somebody mend it at the server, or between, without a word to the program? Whoever has worked with the server before waits
    /// until it is mended.
    pub(crate) fn is_of_the_server(&self) -> bool {
        self.is_transient()
            || matches!(
                self.kind,
                ErrorKind::AuthenticationFailed
                    | ErrorKind::PermissionDenied
                    | ErrorKind::EvictionPolicy
                    | ErrorKind::Unsupported
                    | ErrorKind::Embedded
                    // The server is of another kind now: with or without TLS, in a cluster.
                    | ErrorKind::WrongServer
            )
    }
}

/// How many jobs the earlier batches of a long push had.
pub(crate) fn pushed_before(count: u64) -> String {
    format!("{} of the batches before {} pushed", counted(count, "job"), verb(count, "is", "are"))
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(operation) = self.operation {
            write!(f, "{operation}")?;
            if let Some(queue) = &self.queue {
                let of = match self.of {
                    Of::Queue => "on queue ",
                    Of::Topic => "on topic ",
                    Of::Lock => "",
                };
                write!(f, " {of}'{queue}'")?;
            }
            if let Some(id) = &self.job_id {
                write!(f, ", job '{id}'")?;
            }
            write!(f, ": ")?;
        }
        f.write_str(&self.message)?;
        match &self.source {
            None => Ok(()),
            Some(source) => match source.downcast_ref::<Self>() {
                // What the last attempt of several came to.
                Some(last) => write!(f, " (last: {last})"),
                None => write!(f, " (server or system said: {source})"),
            },
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self}", self.kind)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_deref().map(|source| source as &(dyn StdError + 'static))
    }
}
