//! The id of this process without a call of the system: asked once in each process, and again in each that is forked from it.

use std::sync::atomic::{AtomicU32, Ordering};

/// 0 where nobody has asked yet.
static ID: AtomicU32 = AtomicU32::new(0);

/// As [`std::process::id`], for calls that are made once a job. A process that was made by the bare system call `clone`, past
/// the C library's `fork`, would see its parent's.
pub fn id() -> u32 {
    match ID.load(Ordering::Relaxed) {
        0 => first(),
        id => id,
    }
}

#[cold]
fn first() -> u32 {
    let id = std::process::id();
    // Threads that ask at the same moment each register it, which harms nothing; a lock would be held for ever in a child.
    // SAFETY: the function may be called in a child of a process with threads: it only stores a number.
    if unsafe { libc::pthread_atfork(None, None, Some(forked)) } == 0 {
        ID.store(id, Ordering::Relaxed);
    }
    id
}

extern "C" fn forked() {
    ID.store(std::process::id(), Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forked_process_has_an_id_of_its_own() {
        assert_eq!(id(), std::process::id());
        // SAFETY: the child only compares two numbers and ends.
        unsafe {
            let child = libc::fork();
            if child == 0 {
                libc::_exit(i32::from(id() != std::process::id()));
            }
            let mut status = -1;
            assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
            assert_eq!(status, 0);
        }
        assert_eq!(id(), std::process::id());
    }
}
