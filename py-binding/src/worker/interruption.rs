//! Where the thread of a handler may be interrupted.
//!
//! An exception from outside comes between any two steps of Python code, also in Python's own library: behind the call that takes a lock
//! and before the `try` that frees it, the lock stays held, for the whole process if it is that of the imports or of a log. So the thread
//! is looked at first, and no Python code runs between the look and the exception. It may come
//!
//! - in code that is not of Python's library: at once;
//! - in the library once [`SOON`] has passed since the first look, since most of its functions end sooner. Never in a function that takes
//!   or frees a lock, nor behind its call, however long that waits: see `duly._places`, which reads the bytecode for it. Never in a callback
//!   from which Python drops what is raised;
//! - not while a thread is started that does not run yet: before Python 3.12 the new one has the number of this one until the system has
//!   begun it, and would get the exception in its place. Only behind [`LATEST`] no more than [`UNTIL_IT_RUNS`] is waited.
//!
//! From Python 3.13 on the exception may come one check later than the thread stands: it reads what is asked of it before it gives the GIL
//! away. Then also what the code calls next must not free a lock, unless the thread stands still, which it does in C code: behind that it
//! reads again.

use std::ffi::c_ulong;
use std::time::{Duration, Instant};

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString, PyTuple};

/// The exception waits for code that is not of the library for so long.
const SOON: Duration = Duration::from_millis(50);
/// A thread stands still if it was found at one instruction for [`SOON`], and so many times: between two looks others have the GIL.
const STANDS: u32 = 5;
/// Whatever the program's own code does next, the exception waits no longer for it.
const LATEST: Duration = Duration::from_secs(1);
/// With the GIL, so that nothing else of Python goes on: far longer than the system takes to begin a thread.
const UNTIL_IT_RUNS: Duration = Duration::from_millis(10);
/// How many frames are looked through.
const DEEPEST: usize = 12;

/// What of the library takes or frees a lock for its caller, or has its exceptions dropped.
const NEVER: [&str; 11] = [
    "acquire",
    "release",
    "__enter__",
    "__exit__",
    "_acquireLock",
    "_releaseLock",
    "_release_save",
    "_acquire_restore",
    "cb",
    "remove",
    "_remove",
];

// What `duly._places` says of an instruction.
const BEHIND_A_LOCK: u8 = 1;
const BEFORE_A_LOCK: u8 = 2;
const MAY_RETURN: u8 = 4;

/// What was seen of a thread that is to be interrupted.
pub(super) struct Looks {
    since: Instant,
    at: Option<At>,
}

/// The frame is kept, so that no other one has its address.
struct At {
    frame: Py<PyAny>,
    instruction: i64,
    since: Instant,
    looks: u32,
}

impl Looks {
    pub(super) fn begin() -> Self {
        Self { since: Instant::now(), at: None }
    }

    /// May the exception come now? If not, this is to be asked again soon.
    pub(super) fn may_interrupt(
        &mut self,
        py: Python<'_>,
        thread: c_ulong,
        places: &Bound<'_, PyDict>,
    ) -> PyResult<bool> {
        let frames = py.import(intern!(py, "sys"))?.call_method0(intern!(py, "_current_frames"))?;
        let Ok(frame) = frames.get_item(thread) else { return Ok(true) };
        let stands = self.stands(&frame)?;
        match within(&frame)? {
            Within::Finalizer => return Ok(false),
            Within::Start if self.since.elapsed() < LATEST => return Ok(false),
            Within::Start if py.version_info() < (3, 12) => std::thread::sleep(UNTIL_IT_RUNS),
            Within::Start | Within::Nothing => {}
        }
        let is_of_library = is_of_library(&frame, places)?;
        if is_of_library {
            let name = frame.getattr(intern!(py, "f_code"))?.getattr(intern!(py, "co_name"))?;
            let name = name.cast_into::<PyString>()?;
            if self.since.elapsed() < SOON || NEVER.contains(&&*name.to_cow()?) {
                return Ok(false);
            }
            if place_of(&frame, places)?.is_none_or(|place| place & BEHIND_A_LOCK != 0) {
                return Ok(false);
            }
        }
        let is_last = !is_of_library && self.since.elapsed() >= LATEST;
        if py.version_info() < (3, 13) || stands || is_last {
            return Ok(true);
        }
        Ok(!may_free_a_lock_next(frame, places)?)
    }

    fn stands(&mut self, frame: &Bound<'_, PyAny>) -> PyResult<bool> {
        let instruction = frame.getattr(intern!(frame.py(), "f_lasti"))?.extract()?;
        match &mut self.at {
            Some(at) if at.frame.is(frame) && at.instruction == instruction => {
                at.looks += 1;
                Ok(at.looks >= STANDS && at.since.elapsed() >= SOON)
            }
            at => {
                *at = Some(At { frame: frame.clone().unbind(), instruction, since: Instant::now(), looks: 1 });
                Ok(false)
            }
        }
    }
}

fn is_of_library(frame: &Bound<'_, PyAny>, places: &Bound<'_, PyDict>) -> PyResult<bool> {
    let py = frame.py();
    let library = places.getattr(intern!(py, "library"))?.cast_into::<PyTuple>()?;
    let file = frame.getattr(intern!(py, "f_code"))?.getattr(intern!(py, "co_filename"))?;
    if !file.call_method1(intern!(py, "startswith"), (library,))?.extract::<bool>()? {
        return Ok(false);
    }
    let file = file.cast_into::<PyString>()?;
    let file = file.to_cow()?;
    Ok(!file.contains("site-packages") && !file.contains("dist-packages"))
}

/// What is among the calls that a thread is in.
enum Within {
    /// The start of another thread, which does not run yet.
    Start,
    /// Its exceptions are dropped.
    Finalizer,
    Nothing,
}

fn within(frame: &Bound<'_, PyAny>) -> PyResult<Within> {
    let py = frame.py();
    let mut frame = frame.clone();
    for _ in 0..DEEPEST {
        let code = frame.getattr(intern!(py, "f_code"))?;
        let name = code.getattr(intern!(py, "co_name"))?.cast_into::<PyString>()?;
        match &*name.to_cow()? {
            "__del__" => return Ok(Within::Finalizer),
            "start" => {
                let file = code.getattr(intern!(py, "co_filename"))?;
                if file.call_method1(intern!(py, "endswith"), ("threading.py",))?.extract()? {
                    let started = frame.getattr(intern!(py, "f_locals"))?.get_item(intern!(py, "self"))?;
                    // It has said so itself.
                    let runs = !started.getattr(intern!(py, "_ident"))?.is_none();
                    return Ok(if runs { Within::Nothing } else { Within::Start });
                }
            }
            _ => {}
        }
        frame = frame.getattr(intern!(py, "f_back"))?;
        if frame.is_none() {
            break;
        }
    }
    Ok(Within::Nothing)
}

/// Can the next that this frame calls, or behind its end one of its callers, be what frees a lock? True while it is not known.
fn may_free_a_lock_next(mut frame: Bound<'_, PyAny>, places: &Bound<'_, PyDict>) -> PyResult<bool> {
    for _ in 0..DEEPEST {
        let Some(place) = place_of(&frame, places)? else { return Ok(true) };
        if place & BEFORE_A_LOCK != 0 {
            return Ok(true);
        }
        if place & MAY_RETURN == 0 {
            break;
        }
        frame = frame.getattr(intern!(frame.py(), "f_back"))?;
        if frame.is_none() {
            break;
        }
    }
    Ok(false)
}

/// What is known of the instruction at which this frame is. Nothing if its code was not read before: it is now, but the thread went on.
fn place_of(frame: &Bound<'_, PyAny>, places: &Bound<'_, PyDict>) -> PyResult<Option<u8>> {
    let py = frame.py();
    let code = frame.getattr(intern!(py, "f_code"))?;
    let instruction: i64 = frame.getattr(intern!(py, "f_lasti"))?.extract()?;
    let Some(of_code) = places.get_item(&code)? else {
        places.as_any().get_item(code)?;
        return Ok(None);
    };
    let of_code = of_code.cast_into::<PyBytes>()?;
    let index = usize::try_from(instruction / 2).ok();
    Ok(Some(index.and_then(|index| of_code.as_bytes().get(index).copied()).unwrap_or_default()))
}
