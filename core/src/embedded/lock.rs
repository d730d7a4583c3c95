//! `flock` on the lock files of a folder: whole-file locks that the kernel drops when the last holder dies.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use super::{failed, refused};
use crate::process::standard;
use crate::value::error::Error;

/// How often a contended lock is tried again. `flock` has no deadline of its own, and an alarm is the host's.
const TRY_AGAIN: Duration = Duration::from_millis(5);

#[derive(Debug, Clone, Copy)]
pub(super) enum Mode {
    Shared,
    Exclusive,
}

/// A lock that is given up by unlocking, not only by closing: a process forked meanwhile by another thread has a copy
/// of the file, and closing ours would leave the lock with that process for as long as it lives.
#[derive(Debug)]
pub(super) struct FileLock(Option<File>);

impl FileLock {
    /// The file with its lock still on it, to be given up by closing.
    pub(super) fn keep(mut self) -> File {
        self.0.take().expect("a lock is held until it is kept or dropped")
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        if let Some(file) = &self.0 {
            let _ = flock(file, libc::LOCK_UN);
        }
    }
}

pub(super) fn wait(path: &Path, mode: Mode, patience: Duration) -> Result<FileLock, Error> {
    let file = open(path)?;
    let operation = match mode {
        Mode::Shared => libc::LOCK_SH,
        Mode::Exclusive => libc::LOCK_EX,
    };
    let deadline = Instant::now() + patience;
    while !try_flock(&file, operation).map_err(|e| failed(format!("could not lock {}", path.display()), e))? {
        if Instant::now() >= deadline {
            return Err(refused(format!(
                "another process has held {} for {} s; see which with: fuser {0}",
                path.display(),
                patience.as_secs()
            )));
        }
        std::thread::sleep(TRY_AGAIN);
    }
    Ok(FileLock(Some(file)))
}

/// Does nobody hold this lock at this moment?
pub(super) fn is_free(path: &Path) -> Result<bool, Error> {
    let file = open(path)?;
    let free = try_flock(&file, libc::LOCK_EX).map_err(|e| failed(format!("could not lock {}", path.display()), e))?;
    if free {
        let _ = flock(&file, libc::LOCK_UN);
    }
    Ok(free)
}

fn open(path: &Path) -> Result<File, Error> {
    standard::occupy();
    let options = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).to_owned();
    options.open(path).map_err(|e| failed(format!("could not open {}", path.display()), e))
}

fn try_flock(file: &File, operation: libc::c_int) -> io::Result<bool> {
    match flock(file, operation | libc::LOCK_NB) {
        Ok(()) => Ok(true),
        Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => Ok(false),
        Err(e) => Err(e),
    }
}

fn flock(file: &File, operation: libc::c_int) -> io::Result<()> {
    // SAFETY: a plain system call on a file that is open for as long as the borrow lasts.
    if unsafe { libc::flock(file.as_raw_fd(), operation) } == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
