//! A file descriptor that is readable while it is shown: what an event loop waits for.

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};

use self::platform::{clear, make, raise};
use crate::process::standard;

/// Its owner sees to it that one thread at a time shows or hides it.
pub(crate) struct Sign {
    ends: Ends,
    is_shown: bool,
}

struct Ends {
    read: OwnedFd,
    /// The same where the platform has descriptors with one end.
    write: Option<OwnedFd>,
}

impl Sign {
    /// Hidden. Errors: the process may have no more files open.
    pub(crate) fn new() -> io::Result<Self> {
        standard::occupy();
        Ok(Self { ends: make()?, is_shown: false })
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.ends.read.as_raw_fd()
    }

    pub(crate) fn show(&mut self) {
        if !std::mem::replace(&mut self.is_shown, true) {
            raise(&self.ends);
        }
    }

    pub(crate) fn hide(&mut self) {
        if std::mem::replace(&mut self.is_shown, false) {
            clear(&self.ends);
        }
    }
}

fn write(fd: &OwnedFd, bytes: &[u8]) {
    // SAFETY: the descriptor is open, and the bytes live until the call returns. It is new, and holds one write at a time.
    unsafe { libc::write(fd.as_raw_fd(), bytes.as_ptr().cast(), bytes.len()) };
}

fn read(fd: &OwnedFd) {
    let mut bytes = [0_u8; 8];
    // SAFETY: the descriptor is open and does not block, and the call writes at most as many bytes as there are.
    unsafe { libc::read(fd.as_raw_fd(), bytes.as_mut_ptr().cast(), bytes.len()) };
}

#[cfg(target_os = "linux")]
mod platform {
    use std::io;
    use std::os::fd::{FromRawFd as _, OwnedFd};

    use super::{Ends, read, write};

    pub(super) fn make() -> io::Result<Ends> {
        // SAFETY: the call takes no pointers.
        let fd = unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: it was just opened, and nobody else has it.
        Ok(Ends { read: unsafe { OwnedFd::from_raw_fd(fd) }, write: None })
    }

    pub(super) fn raise(ends: &Ends) {
        write(ends.write.as_ref().unwrap_or(&ends.read), &1_u64.to_ne_bytes());
    }

    pub(super) fn clear(ends: &Ends) {
        read(&ends.read);
    }
}

#[cfg(not(target_os = "linux"))]
mod platform {
    use std::io;
    use std::os::unix::net::UnixStream;

    use super::{Ends, read, write};

    pub(super) fn make() -> io::Result<Ends> {
        // A pair of sockets, which the standard library makes without raw calls.
        let (reads, writes) = UnixStream::pair()?;
        reads.set_nonblocking(true)?;
        writes.set_nonblocking(true)?;
        Ok(Ends { read: reads.into(), write: Some(writes.into()) })
    }

    pub(super) fn raise(ends: &Ends) {
        write(ends.write.as_ref().unwrap_or(&ends.read), &[1]);
    }

    pub(super) fn clear(ends: &Ends) {
        read(&ends.read);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_readable(sign: &Sign) -> bool {
        let mut one = libc::pollfd { fd: sign.fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: there is one entry, which lives until the call returns.
        unsafe { libc::poll(&raw mut one, 1, 0) == 1 }
    }

    #[test]
    fn it_is_readable_while_it_is_shown() {
        let mut sign = Sign::new().unwrap();
        assert!(!is_readable(&sign));
        for _ in 0..3 {
            sign.show();
            sign.show();
            assert!(is_readable(&sign) && is_readable(&sign));
            sign.hide();
            sign.hide();
            assert!(!is_readable(&sign));
        }
    }
}
