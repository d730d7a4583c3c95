//! How often this program connects to a port, also where nothing listens that could count it.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Without a lock, because another thread may fork meanwhile.
static DIALS: [AtomicUsize; 65_536] = [const { AtomicUsize::new(0) }; 65_536];

/// So far, to this port of any address of IPv4.
pub(crate) fn to(port: u16) -> usize {
    DIALS[usize::from(port)].load(Ordering::SeqCst)
}

/// Stands before that of the C library: everything in this program calls this one.
// SAFETY: it does what the library's function of this name does.
#[unsafe(no_mangle)]
unsafe extern "C" fn connect(
    socket: libc::c_int,
    address: *const libc::sockaddr,
    length: libc::socklen_t,
) -> libc::c_int {
    // SAFETY: the caller gives an address, which begins with its family.
    if i32::from(unsafe { (*address).sa_family }) == libc::AF_INET {
        // SAFETY: of this family it is one of these; it need not be aligned for it.
        let address = unsafe { address.cast::<libc::sockaddr_in>().read_unaligned() };
        DIALS[usize::from(u16::from_be(address.sin_port))].fetch_add(1, Ordering::SeqCst);
    }
    // SAFETY: the arguments are the caller's.
    let done = unsafe { libc::syscall(libc::SYS_connect, socket, address, length) };
    i32::try_from(done).unwrap()
}
