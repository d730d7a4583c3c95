//! A timer that rings within some ten microseconds of its time.
//!
//! Tokio's timers count whole milliseconds and round up, which would be most of the lateness of a due job.

use std::time::Instant;

/// Ready at that time.
pub(crate) async fn at(time: Instant) {
    let left = time.saturating_duration_since(Instant::now());
    if !left.is_zero() && platform::sleep(left).await.is_err() {
        tokio::time::sleep_until(time.into()).await;
    }
}

#[cfg(target_os = "linux")]
mod platform {
    use std::io;
    use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
    use std::ptr;
    use std::time::Duration;

    use tokio::io::Interest;
    use tokio::io::unix::AsyncFd;

    use crate::process::standard;

    /// Sleeps on a timer of the kernel, which the runtime waits for as for a socket.
    pub(super) async fn sleep(span: Duration) -> io::Result<()> {
        // SAFETY: the descriptor is owned by the value that watches it, so it stays open as long as it is watched.
        let timer = unsafe { AsyncFd::register_with_interest(armed(span)?, Interest::READABLE) }?;
        timer.readable().await?.retain_ready();
        Ok(())
    }

    fn armed(span: Duration) -> io::Result<OwnedFd> {
        standard::occupy();
        // SAFETY: the call takes no pointers.
        let fd = unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_NONBLOCK | libc::TFD_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: it was just opened, and nobody else has it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let value = libc::timespec {
            tv_sec: libc::time_t::try_from(span.as_secs()).unwrap_or(libc::time_t::MAX),
            tv_nsec: span.subsec_nanos().into(),
        };
        let once = libc::itimerspec { it_interval: libc::timespec { tv_sec: 0, tv_nsec: 0 }, it_value: value };
        // SAFETY: the timer is open, `once` lives until the call returns, and the old value is not asked for.
        match unsafe { libc::timerfd_settime(fd.as_raw_fd(), 0, &raw const once, ptr::null_mut()) } {
            0 => Ok(fd),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod platform {
    use std::io;
    use std::time::Duration;

    /// There is no better timer here than tokio's.
    pub(super) async fn sleep(_span: Duration) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn it_rings_in_time_and_never_early() {
        let time = Instant::now() + Duration::from_micros(1500);
        at(time).await;
        assert!(Instant::now() >= time);
    }

    #[tokio::test]
    async fn a_time_that_is_over_rings_at_once() {
        at(Instant::now()).await;
    }
}
