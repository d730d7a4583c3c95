//! Where the thread of a handler may be interrupted.
//!
//! An exception from outside comes between any two steps of Python code, also in Python's own library: behind the call that takes a lock
//! and before the `try` that frees it, the lock stays held, for the whole process if it is that of the imports or of a log. So the thread
//! is looked at first, and the exception comes only where that is known to do no harm; else it is put off, and the thread is looked at again
//! soon. It may come
//!
//! - in code that is not of Python's library: at once;
//! - in the library once [`SOON`] has passed since the first look, since most of its functions end sooner. Never in a function that takes
//!   or frees a lock, nor behind its call, however long that waits: see `duly._places`, which reads the bytecode for it. In the `with` of a
//!   lock of the library, except in the wait of a condition, only behind [`GUARDED`], as what the lock guards may be half changed: a handler that
//!   does nothing but use a `queue.Queue` which others use, too, is found nowhere else;
//! - not at a call of `acquire` without arguments, in whatever code: the `try` that frees the lock begins behind it. It comes at the next place;
//! - not where Python drops what is raised: in a destructor, a callback of a weak reference or one of an event loop;
//! - not where the library starts a child or makes a file, which would be lost, and only behind [`LATEST`] where it sees a child's end;
//! - in what begins or ends a `with`, and in what that calls, only once the thread has been there for as long as [`LATEST`], or behind
//!   [`WITHOUT_A_WITH`]: a transaction that was begun in an `__enter__` which does not return has no end;
//! - not while a thread is started that does not run yet: before Python 3.12 the new one has the number of this one until the system has
//!   begun it, and would get the exception in its place. Only behind [`LATEST`] no more than [`UNTIL_IT_RUNS`] is waited.
//!
//! From Python 3.13 on the exception may come one check later than the thread stands: it reads what is asked of it before it gives the GIL
//! away. Then also what the code calls next must not free a lock, unless the thread stands still, which it does in C code: behind that it
//! reads again. Behind [`LATEST`] that is seen within one look, as others get the GIL in it: who waits with a short timeout, again and again, is
//! never found at one instruction for long. In the library only where C code waits: there a thread wants the GIL only for an instant.
//!
//! Where a loop begins again, some versions of Python raise it as if the loop were in no `with` and no `try`, of which no end runs then. So it waits
//! for another place. A loop of Python that calls nothing has no other: behind [`LATEST`], it is raised there by `duly._loops`, and
//! on Python 3.11, which cannot do that, where the loop begins again.
//!
//! If C code raises while the exception is on its way, that comes where this is handled: from Python 3.11 on at the start of the next
//! function, such as an `__exit__`, which `duly._cut_short` then calls; until 3.10 before the `with` or the `finally`, so there it waits until
//! [`LATEST`] while the thread may be in C code within one, of which nobody can tell whether it is.
//!
//! A look is worth nothing once other threads have gone on. So no Python code may run in it, of which a destructor is the most likely: no
//! frame is let go whose last reference this is, Python's collector rests, and at the end the thread is looked at once more.

use std::ffi::c_ulong;
use std::time::{Duration, Instant};

use duly::blocking::process::PATIENCE;
use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString, PyTuple, PyType};

/// The exception waits for code that is not of the library for so long.
const SOON: Duration = Duration::from_millis(50);
/// The exception waits so long for code that no lock of the library guards.
const GUARDED: Duration = Duration::from_millis(250);
/// A thread stands still if it was found at one instruction for [`SOON`], and so many times: between two looks others have the GIL.
const STANDS: u32 = 5;
/// Behind [`LATEST`] it does if it was found at one instruction so many times, between which others had the GIL for [`A_PAUSE`].
const STANDS_LATE: u32 = 3;
pub(super) const A_PAUSE: Duration = Duration::from_millis(1);
/// Whatever the program's own code does next, the exception waits no longer for it.
const LATEST: Duration = Duration::from_secs(1);
/// Nor for code that begins and ends no `with`. Behind [`PATIENCE`] the worker would end its process.
const WITHOUT_A_WITH: Duration = Duration::from_secs(4);
const _: () = assert!(WITHOUT_A_WITH.as_millis() < PATIENCE.as_millis());
/// With the GIL, so that nothing else of Python goes on: far longer than the system takes to begin a thread.
const UNTIL_IT_RUNS: Duration = Duration::from_millis(10);
/// How many frames are looked through.
const DEEPEST: usize = 50;
/// How many frames that have ended are kept for one run; then it is not known any more whether the thread stands still.
const MOST_KEPT: usize = 1000;
/// So many of these for the calls that begin or end a `with`.
const MOST_OF_A_WITH: usize = 200;

/// What of the library takes or frees a lock for its caller, wakes those that wait, or has its exceptions dropped.
const NEVER: [&str; 27] = [
    "acquire",
    "release",
    "__enter__",
    "__exit__",
    "_acquireLock",
    "_releaseLock",
    "_release_save",
    "_acquire_restore",
    "notify",
    "notify_all",
    "cb",
    "remove",
    "_remove",
    // Of `contextlib.ExitStack`, between the `__enter__` of what it is given and the note that it is to be left.
    "enter_context",
    "enter_async_context",
    "_push_cm_exit",
    "_push_async_cm_exit",
    "_create_exit_wrapper",
    "_push_exit_callback",
    "_exit_wrapper",
    "pop_all",
    // Of the connections of `multiprocessing`, in the middle of an item.
    "recv_bytes",
    "send_bytes",
    "_recv_bytes",
    "_send_bytes",
    "_recv",
    "_send",
];

/// What of the library has, in the middle, a child, a descriptor or a file of which nobody else knows yet, and the file of it. Never in
/// what these call, either.
const WHOLE: [(&str, &str); 15] = [
    ("__init__", "subprocess.py"),
    ("_execute_child", "subprocess.py"),
    ("_get_handles", "subprocess.py"),
    ("_try_wait", "subprocess.py"),
    ("_handle_exitstatus", "subprocess.py"),
    ("start", "process.py"),
    ("_launch", "popen_fork.py"),
    ("_launch", "popen_spawn_posix.py"),
    ("_launch", "popen_forkserver.py"),
    ("__call__", "util.py"), // of `multiprocessing`, as an object ends
    ("__init__", "tempfile.py"),
    ("mkdtemp", "tempfile.py"),
    ("_mkstemp_inner", "tempfile.py"),
    ("cleanup", "tempfile.py"),
    ("_rmtree", "tempfile.py"),
];

/// What begins and ends a `with`.
const OF_A_WITH: [&str; 4] = ["__enter__", "__exit__", "__aenter__", "__aexit__"];

/// Of these what may take long, or be called again and again: behind [`LATEST`] it comes there as well.
const MAY_TAKE_LONG: [&str; 4] = ["_try_wait", "_handle_exitstatus", "cleanup", "_rmtree"];

// What `duly._places` says of an instruction.
const BEHIND_A_LOCK: u16 = 1;
const BEFORE_A_LOCK: u16 = 2;
const MAY_RETURN: u16 = 4;
const IN_A_LOCK: u16 = 8;
const A_WAIT: u16 = 16;
const MAY_RAISE: u16 = 32;
const HAS_AN_END: u16 = 64;
const TAKES_A_LOCK: u16 = 128;
const TAKES_A_LOCK_NEXT: u16 = 256;
const GIVES_THE_GIL: u16 = 512;
const SKIPS_AN_END: u16 = 1024;

/// A coroutine, of either kind, by the flags of its code.
const IS_COROUTINE: u32 = 0x80 | 0x100;

/// What was seen of a thread that is to be interrupted, in one run. To be dropped by that thread, as it has the last references to objects
/// of the handler.
pub(super) struct Looks {
    run: u64,
    since: Instant,
    /// Who drops the exception gets it once more, with the same care.
    pub(super) has_raised: bool,
    at: Option<At>,
    /// The call that begins or ends a `with`, the outermost one, and since when the thread was found in it.
    in_a_with: Option<(Py<PyAny>, Instant)>,
    /// Frames that nobody else has any more: with them end objects of the handler, which may be Python code.
    ended: Vec<Py<PyAny>>,
}

struct At {
    address: usize,
    /// Kept from the second look on, so that no other one has its address.
    frame: Option<Py<PyAny>>,
    instruction: i64,
    since: Instant,
    looks: u32,
}

pub(super) enum Found {
    /// The exception may come, as long as no Python code runs.
    MayCome,
    /// This is to be asked again soon.
    NotNow,
    /// This is to be asked again when others have had the GIL.
    MayStand,
    /// It would skip the end of what a loop of this code is in, and may be raised in that loop in another way: `duly._loops`.
    InALoop(Py<PyAny>),
    /// This code is to be read before, which runs Python code.
    Unread(Py<PyAny>),
}

impl Looks {
    pub(super) fn begin(run: u64) -> Self {
        Self { run, since: Instant::now(), has_raised: false, at: None, in_a_with: None, ended: Vec::new() }
    }

    /// These looks if they are of this run and have not led to the exception, else new ones, which keep the frames of the others.
    pub(super) fn of(mut self, py: Python<'_>, run: u64) -> Self {
        if self.run == run && !self.has_raised {
            return self;
        }
        let frames = [self.at.take().and_then(|at| at.frame), self.in_a_with.take().map(|(frame, _)| frame)];
        for frame in frames.into_iter().flatten() {
            self.let_go(frame.into_bound(py));
        }
        Self { ended: self.ended, ..Self::begin(run) }
    }

    pub(super) fn look(&mut self, py: Python<'_>, thread: c_ulong, places: &Bound<'_, PyDict>) -> PyResult<Found> {
        let Some(frame) = frame_of(py, thread)? else { return Ok(Found::MayCome) };
        let found = self.judge(&frame, places).and_then(|found| {
            // An audit hook of the program is Python code.
            let is_there_yet = frame_of(py, thread)?.is_some_and(|now| now.is(&frame));
            let instruction = instruction_of(&frame)?;
            let is_same = is_there_yet && self.at.as_ref().is_some_and(|at| at.instruction == instruction);
            Ok(if is_same || !matches!(found, Found::MayCome) { found } else { Found::NotNow })
        });
        self.let_go(frame);
        found
    }

    fn judge(&mut self, frame: &Bound<'_, PyAny>, places: &Bound<'_, PyDict>) -> PyResult<Found> {
        let py = frame.py();
        let (stands, stands_late) = self.stands(frame)?;
        let is_late = self.since.elapsed() >= LATEST;
        let within = within(frame, places)?;
        let in_a_with = if let Within::With(of) = &within { Some(of.clone()) } else { None };
        let stays_in_it = self.stays_in_a_with(py, in_a_with);
        match within {
            Within::Dropped => return Ok(Found::NotNow),
            Within::Start | Within::End if !is_late => return Ok(Found::NotNow),
            Within::Start if py.version_info() < (3, 12) => std::thread::sleep(UNTIL_IT_RUNS),
            Within::With(_) if !stays_in_it => return Ok(Found::NotNow),
            Within::Start | Within::End | Within::With(_) | Within::Nothing => {}
        }
        let is_of_library = is_of_library(frame, places)?;
        if is_of_library && (self.since.elapsed() < SOON || NEVER.contains(&&*name_of(frame)?.to_cow()?)) {
            return Ok(Found::NotNow);
        }
        let found = (|| {
            let does_harm = if is_of_library {
                is_in_a_lock(frame, places, self.since.elapsed() >= GUARDED)?
            } else {
                takes_a_lock(frame, places)?
            };
            if does_harm {
                return Ok(Found::NotNow);
            }
            // Behind a call of C code that waits it comes at once.
            let waits_in_a_call = stands && place_of(frame, places)? & GIVES_THE_GIL != 0;
            if !waits_in_a_call && let Some(code) = loop_that_skips_an_end(frame, places)? {
                match py.version_info() >= (3, 12) {
                    _ if !is_late => return Ok(Found::NotNow),
                    true => return Ok(Found::InALoop(code.unbind())),
                    false => {}
                }
            }
            if py.version_info() < (3, 13) || stands {
                return Ok(Found::MayCome);
            }
            let is_last = is_late && !is_of_library;
            if !may_come_next(frame, places, if is_last { TAKES_A_LOCK_NEXT } else { BEFORE_A_LOCK })? {
                return Ok(Found::MayCome);
            }
            Ok(match is_last || (is_late && place_of(frame, places)? & GIVES_THE_GIL != 0) {
                true if stands_late => Found::MayCome,
                true => Found::MayStand,
                false => Found::NotNow,
            })
        })();
        match found {
            Ok(found) => Ok(found),
            Err(Unknown::Unread(code)) => Ok(Found::Unread(code)),
            Err(Unknown::Raised(error)) => Err(error),
        }
    }

    /// Does the thread stand still, and has it been found here often enough for one whose run is late?
    fn stands(&mut self, frame: &Bound<'_, PyAny>) -> PyResult<(bool, bool)> {
        let (address, instruction) = (frame.as_ptr() as usize, instruction_of(frame)?);
        let now = Instant::now();
        let mut at = match self.at.take() {
            Some(at) if at.address == address && at.instruction == instruction => at,
            before => {
                if let Some(before) = before.and_then(|before| before.frame) {
                    self.let_go(before.into_bound(frame.py()));
                }
                self.at = Some(At { address, frame: None, instruction, since: now, looks: 1 });
                return Ok((false, false));
            }
        };
        if at.frame.is_none() && self.ended.len() < MOST_KEPT {
            at = At { frame: Some(frame.clone().unbind()), since: now, looks: 0, ..at };
        }
        at.looks += 1;
        let is_kept = at.frame.is_some();
        let stands = is_kept && at.looks >= STANDS && at.since.elapsed() >= SOON;
        let stands_late = is_kept && at.looks >= STANDS_LATE && at.since.elapsed() >= A_PAUSE;
        self.at = Some(at);
        Ok((stands, stands_late))
    }

    /// Has the thread been in this call, which begins or ends a `with`, for long, or is there nothing else in its handler?
    fn stays_in_a_with(&mut self, py: Python<'_>, of: Option<Bound<'_, PyAny>>) -> bool {
        let before = self.in_a_with.take();
        let since = match (&before, &of) {
            (Some((frame, since)), Some(of)) if frame.is(of) => *since,
            _ => Instant::now(),
        };
        if let Some((frame, _)) = before {
            self.let_go(frame.into_bound(py));
        }
        // It is kept, so that no other one has its address.
        self.in_a_with = of.filter(|_| self.ended.len() < MOST_OF_A_WITH).map(|of| (of.unbind(), since));
        since.elapsed() >= LATEST || self.since.elapsed() >= WITHOUT_A_WITH
    }

    /// Drops this reference, unless it is the last one.
    fn let_go(&mut self, frame: Bound<'_, PyAny>) {
        // SAFETY: the GIL is held; it reads a number of an object that is there.
        if unsafe { ffi::Py_REFCNT(frame.as_ptr()) } == 1 {
            self.ended.push(frame.unbind());
        }
    }
}

/// Python's collector does not run meanwhile: until Python 3.11 it may wherever an object is made.
pub(super) struct Uncollected {
    was_enabled: bool,
}

impl Uncollected {
    pub(super) fn begin(_py: Python<'_>) -> Self {
        // SAFETY: the GIL is held; it changes a number.
        Self { was_enabled: unsafe { ffi::PyGC_Disable() } != 0 }
    }
}

impl Drop for Uncollected {
    fn drop(&mut self) {
        if self.was_enabled {
            // SAFETY: as above; it is dropped by the method that began it.
            unsafe { ffi::PyGC_Enable() };
        }
    }
}

/// Why nothing can be said of an instruction.
enum Unknown {
    /// This code was not read before.
    Unread(Py<PyAny>),
    Raised(PyErr),
}

impl<E: Into<PyErr>> From<E> for Unknown {
    fn from(error: E) -> Self {
        Self::Raised(error.into())
    }
}

/// Is this thread in an `except` or a `finally` that such an exception has led to? Unknown counts as such.
pub(super) fn handles(py: Python<'_>, thread: c_ulong, exception: &Bound<'_, PyType>) -> PyResult<bool> {
    let Ok(ask) = py.import(intern!(py, "sys"))?.getattr(intern!(py, "_current_exceptions")) else { return Ok(true) };
    let Some(handled) = ask.call0()?.cast_into::<PyDict>()?.get_item(thread)? else { return Ok(false) };
    // Until Python 3.11 with its class and its traceback.
    let mut error = match handled.cast::<PyTuple>() {
        Ok(three) => three.get_item(1)?,
        Err(_) => handled,
    };
    for _ in 0..DEEPEST {
        if error.is_none() {
            break;
        }
        if error.get_type().is_subclass(exception)? {
            return Ok(true);
        }
        // SAFETY: the GIL is held, and what is handled is an exception; it gives a new reference, or null.
        let before = unsafe { Bound::from_owned_ptr_or_opt(py, ffi::PyException_GetContext(error.as_ptr())) };
        let Some(before) = before else { break };
        error = before;
    }
    Ok(false)
}

/// The innermost frame of this thread. Those of the other threads are let go before anything else runs.
fn frame_of(py: Python<'_>, thread: c_ulong) -> PyResult<Option<Bound<'_, PyAny>>> {
    let frames = py.import(intern!(py, "sys"))?.call_method0(intern!(py, "_current_frames"))?;
    frames.cast_into::<PyDict>()?.get_item(thread)
}

fn instruction_of(frame: &Bound<'_, PyAny>) -> PyResult<i64> {
    frame.getattr(intern!(frame.py(), "f_lasti"))?.extract()
}

fn code_of<'py>(frame: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    frame.getattr(intern!(frame.py(), "f_code"))
}

fn name_of<'py>(frame: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyString>> {
    Ok(code_of(frame)?.getattr(intern!(frame.py(), "co_name"))?.cast_into()?)
}

fn file_of<'py>(frame: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    code_of(frame)?.getattr(intern!(frame.py(), "co_filename"))
}

fn caller_of<'py>(frame: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let caller = frame.getattr(intern!(frame.py(), "f_back"))?;
    Ok((!caller.is_none()).then_some(caller))
}

/// This frame, and those from which it was called, no more than [`DEEPEST`].
fn each_from<'py>(frame: &Bound<'py, PyAny>) -> impl Iterator<Item = PyResult<Bound<'py, PyAny>>> {
    let begin = Some(Ok(frame.clone()));
    std::iter::successors(begin, |before| caller_of(before.as_ref().ok()?).transpose()).take(DEEPEST)
}

fn is_of_library(frame: &Bound<'_, PyAny>, places: &Bound<'_, PyDict>) -> PyResult<bool> {
    let py = frame.py();
    let file = file_of(frame)?;
    if !starts_with(&file, places, intern!(py, "library"))? {
        return Ok(false);
    }
    let file = file.cast_into::<PyString>()?;
    let file = file.to_cow()?;
    Ok(!file.contains("site-packages") && !file.contains("dist-packages"))
}

/// Does this file begin as `places` says of this kind?
fn starts_with(file: &Bound<'_, PyAny>, places: &Bound<'_, PyDict>, kind: &Bound<'_, PyString>) -> PyResult<bool> {
    file.call_method1(intern!(file.py(), "startswith"), (places.getattr(kind)?,))?.extract()
}

/// What is among the calls that a thread is in.
enum Within<'py> {
    /// The start of another thread, which does not run yet.
    Start,
    /// A child's end, which is seen once, or the end of a folder.
    End,
    /// The beginning or end of a `with`: of several the first that was called.
    With(Bound<'py, PyAny>),
    /// What is raised there is dropped, or what is made there is lost.
    Dropped,
    Nothing,
}

fn within<'py>(frame: &Bound<'py, PyAny>, places: &Bound<'py, PyDict>) -> PyResult<Within<'py>> {
    let py = frame.py();
    let mut called: Option<Bound<'_, PyAny>> = None;
    let mut around = Within::Nothing;
    for frame in each_from(frame) {
        let frame = frame?;
        let name = name_of(&frame)?;
        let name = name.to_cow()?;
        if OF_A_WITH.contains(&&*name) {
            around = Within::With(frame.clone());
        }
        if WHOLE.iter().any(|(function, _)| *function == name) && is_whole(&frame, &name, places)? {
            if !MAY_TAKE_LONG.contains(&&*name) {
                return Ok(Within::Dropped);
            }
            if matches!(around, Within::Nothing) {
                around = Within::End;
            }
        }
        match &*name {
            "__del__" => return Ok(Within::Dropped),
            "start" if file_of(&frame)?.eq(places.getattr(intern!(py, "threading"))?)? => {
                let started = frame.getattr(intern!(py, "f_locals"))?.get_item(intern!(py, "self"))?;
                // It has said so itself.
                let runs = !started.getattr(intern!(py, "_ident"))?.is_none();
                return Ok(if runs { around } else { Within::Start });
            }
            // What comes in a coroutine ends its task.
            "_run" if file_of(&frame)?.eq(places.getattr(intern!(py, "events"))?)? => match &called {
                Some(called) if !is_coroutine(called)? => return Ok(Within::Dropped),
                _ => {}
            },
            _ => {}
        }
        called = Some(frame);
    }
    Ok(around)
}

fn is_whole(frame: &Bound<'_, PyAny>, name: &str, places: &Bound<'_, PyDict>) -> PyResult<bool> {
    if !is_of_library(frame, places)? {
        return Ok(false);
    }
    let file = file_of(frame)?.cast_into::<PyString>()?;
    let file = file.to_cow()?;
    Ok(WHOLE.iter().any(|(function, of_file)| *function == name && file.ends_with(of_file)))
}

fn is_coroutine(frame: &Bound<'_, PyAny>) -> PyResult<bool> {
    let flags: u32 = code_of(frame)?.getattr(intern!(frame.py(), "co_flags"))?.extract()?;
    Ok(flags & IS_COROUTINE != 0)
}

/// Is the thread behind the call that takes or frees a lock, or, unless it is late, in what a lock of the library guards?
fn is_in_a_lock(frame: &Bound<'_, PyAny>, places: &Bound<'_, PyDict>, is_late: bool) -> Result<bool, Unknown> {
    let place = place_of(frame, places)?;
    if place & BEHIND_A_LOCK != 0 {
        return Ok(true);
    }
    if is_late || place & A_WAIT != 0 {
        return Ok(false);
    }
    for frame in each_from(frame) {
        let frame = frame?;
        if !is_of_library(&frame, places)? {
            break;
        }
        if place_of(&frame, places)? & IN_A_LOCK != 0 {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Is the thread at a call behind which the `try` begins that frees a lock? Most code has none, and is not read for it.
fn takes_a_lock(frame: &Bound<'_, PyAny>, places: &Bound<'_, PyDict>) -> Result<bool, Unknown> {
    let py = frame.py();
    let names = code_of(frame)?.getattr(intern!(py, "co_names"))?;
    Ok(names.contains(intern!(py, "acquire"))? && place_of(frame, places)? & TAKES_A_LOCK != 0)
}

/// The code that the thread is in, or will be next, if no `finally` or end of a `with` of it would run. Until Python 3.10 behind C code that raises,
/// later where some loops begin again, from 3.13 on if that comes next.
fn loop_that_skips_an_end<'py>(
    frame: &Bound<'py, PyAny>,
    places: &Bound<'py, PyDict>,
) -> Result<Option<Bound<'py, PyAny>>, Unknown> {
    let version = frame.py().version_info();
    if version < (3, 11) {
        return Ok(may_skip_an_end(frame, places)?.then(|| frame.clone()));
    }
    for frame in each_from(frame) {
        let frame = frame?;
        let place = place_of(&frame, places)?;
        if place & SKIPS_AN_END != 0 {
            return Ok(Some(code_of(&frame)?));
        }
        if version < (3, 13) || place & MAY_RETURN == 0 {
            break;
        }
    }
    Ok(None)
}

/// May the thread be in C code that raises, so that the exception comes before the end of a `with` or a `finally`?
fn may_skip_an_end(frame: &Bound<'_, PyAny>, places: &Bound<'_, PyDict>) -> Result<bool, Unknown> {
    if place_of(frame, places)? & MAY_RAISE == 0 {
        return Ok(false);
    }
    for frame in each_from(frame) {
        let frame = frame?;
        if starts_with(&file_of(&frame)?, places, intern!(frame.py(), "own"))? {
            break; // what calls handlers
        }
        if place_of(&frame, places)? & HAS_AN_END != 0 {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Can this be the next that this frame calls, or behind its end one of its callers?
fn may_come_next(frame: &Bound<'_, PyAny>, places: &Bound<'_, PyDict>, what: u16) -> Result<bool, Unknown> {
    for frame in each_from(frame) {
        let place = place_of(&frame?, places)?;
        if place & what != 0 {
            return Ok(true);
        }
        if place & MAY_RETURN == 0 {
            break;
        }
    }
    Ok(false)
}

/// What is known of the instruction at which this frame is.
fn place_of(frame: &Bound<'_, PyAny>, places: &Bound<'_, PyDict>) -> Result<u16, Unknown> {
    let code = code_of(frame)?;
    let instruction = instruction_of(frame)?;
    let Some(of_code) = places.get_item(&code)? else { return Err(Unknown::Unread(code.unbind())) };
    let of_code = of_code.cast_into::<PyBytes>()?;
    // Two bytes an instruction, as its offset counts them.
    let at = usize::try_from(instruction / 2 * 2).ok();
    let both = at.and_then(|at| of_code.as_bytes().get(at..at + 2)?.try_into().ok());
    Ok(u16::from_le_bytes(both.unwrap_or_default()))
}
