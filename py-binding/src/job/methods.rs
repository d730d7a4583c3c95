//! The verbs of a reserved job, compiled twice: for `duly.Job`, where a call waits, and for `duly.aio.Job`, where it starts.
//!
//! The parent module says which class `Job` is here, and makes the calls: of the one by this process's client, of the other by the
//! job's own.

use pyo3::prelude::*;

use super::Job;
use crate::convert::{self, Counted, Final, Name, Text, Words};
use crate::job::{Changes, error_text, extension, failure, fraction_of, given, release, result_of, unchanged, wait_of};
use crate::lock::lock_options;
use crate::queue::object;

#[pymethods]
impl Job {
    /// Mark the job as done: it leaves the queue. The result is kept if the producer asked for it (`result_ttl`).
    #[pyo3(signature = (result=None))]
    fn ack(slf: &Bound<'_, Self>, result: Option<&Bound<'_, PyAny>>) -> PyResult<Py<PyAny>> {
        let result = result_of(slf.as_super().get().job(), result)?;
        Self::done(slf, result)
    }

    /// Mark the run as failed; return the seconds until the retry, or None if the job is in `failed` now.
    ///
    /// Args:
    ///     error: the text or the exception that is kept with the job, at most 8 KiB.
    ///     retry_after: the wait before the retry, in seconds or as a timedelta, 0 to 100 years. Default: the job's
    ///         policy decides.
    ///     counted: whether this failure counts as an attempt. Default: True.
    ///     final: move the job to `failed` now, whatever retries are left. Default: False.
    ///     data: new data of the job; None is data too. Default: unchanged.
    ///     attempts: the number of failures before this one, 0 to 4,294,967,295. Default: unchanged.
    ///     max_retries: how many retries the job may have, 0 to 4,294,967,295. Default: unchanged.
    ///     headers: strings that the job gets besides those it has, such as the class of the error; one of the same
    ///         name is replaced. Default: none.
    ///     name: a new name of the job. Default: unchanged.
    #[pyo3(signature = (
        error, *, retry_after=None, counted=true, r#final=false, data=unchanged(), attempts=None, max_retries=None,
        headers=None, name=None
    ))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
    fn fail(
        slf: &Bound<'_, Self>,
        error: &Bound<'_, PyAny>,
        retry_after: Option<&Bound<'_, PyAny>>,
        #[pyo3(from_py_with = convert::is_set::<Counted>)] counted: bool,
        #[pyo3(from_py_with = convert::is_set::<Final>)] r#final: bool,
        #[pyo3(from_py_with = given)] data: Option<Bound<'_, PyAny>>,
        attempts: Option<&Bound<'_, PyAny>>,
        max_retries: Option<&Bound<'_, PyAny>>,
        headers: Option<&Bound<'_, PyAny>>,
        name: Option<Text<Name>>,
    ) -> PyResult<Py<PyAny>> {
        let (failed, error) = (failure(retry_after, counted, r#final)?, error_text(error)?);
        let changed = Changes { data, attempts, max_retries, headers, name };
        let changed = changed.of(slf.as_super().get())?;
        Self::settle(slf, failed, error, changed, |py, next| object(py, wait_of(next)))
    }

    /// Give the job back: no failure is counted, unless it is `counted`.
    ///
    /// Args:
    ///     after: how long until it may run again, in seconds or as a timedelta, 0 to 100 years. Default: 0, at once.
    ///     reason: a text that is kept with the job as its last error, at most 8 KiB. Default: that stays.
    ///     counted: whether this run counts as an attempt, as in Laravel and think-queue. The job then waits after
    ///         those that are ready; it never goes to `failed`, whatever retries are left. Default: False.
    #[pyo3(
        signature = (after=None, *, reason=None, counted=false),
        text_signature = "($self, after=None, *, reason='', counted=False)"
    )]
    fn release(
        slf: &Bound<'_, Self>,
        after: Option<&Bound<'_, PyAny>>,
        reason: Option<Text<Words>>,
        #[pyo3(from_py_with = convert::is_set::<Counted>)] counted: bool,
    ) -> PyResult<Py<PyAny>> {
        let reason = reason.map(Text::into_string).unwrap_or_default();
        Self::settle(slf, release(after, counted)?, reason, None, |py, _| Ok(py.None()))
    }

    /// Take a lock for this run, as `Client.lock` does, and return it.
    ///
    /// If another one holds it when the wait is over, this raises `duly.Release`: in a handler the job goes back, not
    /// counted, and runs again after `retry_after`. `Lock.waited` then says for how long it has met the lock taken.
    /// In an `async def` handler it is `async with job.lock(...) as lock:`, and `lock` is a `duly.aio.Lock`.
    ///
    /// Args:
    ///     name: 1 to 128 of the characters `A-Z a-z 0-9 . _ : -`.
    ///     retry_after: the wait before the next run, in seconds or as a timedelta, 0 to 100 years.
    ///     ttl: how long others wait if the holder dies, in seconds or as a timedelta, 0.1 s to 24 h. Default: 30 s.
    ///     wait: how long to wait for it, in seconds or as a timedelta, a year at most. Default: 0.
    #[pyo3(signature = (name, *, retry_after, ttl=None, wait=None))]
    fn lock(
        slf: &Bound<'_, Self>,
        name: Text<Name>,
        retry_after: &Bound<'_, PyAny>,
        ttl: Option<&Bound<'_, PyAny>>,
        wait: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let options = lock_options(ttl, wait)?;
        convert::span("retry_after", retry_after)?;
        Self::take_lock(slf, name.into_string(), options, retry_after)
    }

    /// Report how far the run has come, from 0 to 1, with a text of at most 1 KiB, for `find` and `peek`.
    #[pyo3(signature = (fraction, text=None), text_signature = "($self, fraction, text='')")]
    fn progress(slf: &Bound<'_, Self>, fraction: &Bound<'_, PyAny>, text: Option<Text<Words>>) -> PyResult<Py<PyAny>> {
        Self::note_progress(slf, fraction_of(fraction)?, text.map(Text::into_string).unwrap_or_default())
    }

    /// Tell the server that the run starts: should this process die from now on, the run counts.
    ///
    /// For owners of a `Consumer` whose jobs must not run twice. Without it, the first death of a process does not
    /// count for a job with retries: the job may only have been fetched ahead.
    /// A lease that is over, while nobody has taken the job, goes on for 10 s; `extend` sets another time.
    ///
    /// Raises:
    ///     LeaseLostError: another worker may run the job, or it was settled: do not run it.
    fn note_start(slf: &Bound<'_, Self>) -> PyResult<Py<PyAny>> {
        Self::tell_start(slf)
    }

    /// Set the lease to end this long from now, 0.001 s to 24 h (default 10 s).
    #[pyo3(signature = (lease=None))]
    fn extend(slf: &Bound<'_, Self>, lease: Option<&Bound<'_, PyAny>>) -> PyResult<Py<PyAny>> {
        Self::set_lease(slf, extension(lease)?)
    }
}
