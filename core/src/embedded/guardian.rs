//! The guardian: a process that starts the server as its child, waits until nobody uses it, and ends it.
//!
//! The users cannot do that themselves: the last one may be killed with -9. There is no program of ours to run as
//! guardian either (the host is python, php-fpm or any Rust binary), so it is a fork of the host that never leaves
//! this file. The host may have threads, whose locks (the allocator's, say) are lost in a fork: everything here is
//! system calls on values that were made before it. The price is that the guardian keeps the host's pages of that
//! moment as copy-on-write memory; nothing of the host's files, locks or sockets is kept.
//!
//! ```text
//! host -> fork, ends at once -> setsid -> guardian -> exec server
//!         (std reaps it)                  (this file)  (holds server.lock)
//! ```

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use libc::{c_int, c_uint, pid_t};

use super::folder::Folder;

/// How long a server may take to end after SIGTERM before it is killed; its append-only file is at most 1 s behind.
const SERVER_END_S: c_uint = 30;

/// Starts the server and its guardian. When this returns the server's program runs and holds `server.lock`, but it
/// may not listen yet.
pub(super) fn start(mut command: Command, folder: &Folder) -> io::Result<()> {
    let locks = Locks { users: c_string(folder.users_lock())?, server: c_string(folder.server_lock())? };
    let open_files = highest_open_file();
    // SAFETY: `detach` only makes system calls and touches nothing but its two arguments, as is asked of what runs
    // between fork and exec.
    unsafe { command.pre_exec(move || detach(&locks, open_files)) };
    // The host may ignore SIGCHLD or reap for itself; then there is nothing left to wait for.
    let _ = command.spawn()?.wait();
    Ok(())
}

struct Locks {
    users: CString,
    server: CString,
}

fn c_string(path: PathBuf) -> io::Result<CString> {
    Ok(CString::new(path.into_os_string().as_bytes())?)
}

/// Runs in the host's forked child. The first fork's parent ends at once, so that the host has no child to reap
/// later; of the second fork the parent stays as the guardian and the child returns, to exec the server.
fn detach(locks: &Locks, open_files: c_int) -> io::Result<()> {
    // SAFETY: system calls on integers and on strings that live as long as the caller's borrow.
    unsafe {
        // A mask goes through fork and exec, and a worker's engine blocks all signals: server and guardian would be deaf to
        // SIGTERM, SIGCHLD and SIGALRM, and nobody could end them.
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
        if checked(libc::fork())? != 0 {
            libc::_exit(0);
        }
        libc::setsid(); // away from the terminal: Ctrl-C there must not end the server
        libc::umask(0o077);
        for signal in 1..32 {
            libc::signal(signal, libc::SIG_DFL); // what the host ignores or handles is not the server's business
        }
        close_on_exec(open_files);
        // Without O_CLOEXEC: the server and its children keep this one, and with it the lock, as long as they live.
        let server = checked(libc::open(locks.server.as_ptr(), libc::O_RDWR | libc::O_CREAT, 0o600))?;
        checked(libc::flock(server, libc::LOCK_EX | libc::LOCK_NB))?;
        let users = checked(libc::open(locks.users.as_ptr(), libc::O_RDWR | libc::O_CREAT | libc::O_CLOEXEC, 0o600))?;
        let child = checked(libc::fork())?;
        if child != 0 {
            guard(child, users, open_files);
        }
        // A guardian that was killed must not leave a server that nobody ends: its users start another (`revive`).
        #[cfg(target_os = "linux")]
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM);
    }
    Ok(())
}

/// The guardian's whole life.
///
/// # Safety
/// Only in a process that was just forked for it: it closes every file.
unsafe fn guard(server: pid_t, users: c_int, open_files: c_int) -> ! {
    // SAFETY: system calls on integers.
    unsafe {
        libc::dup2(users, 0); // 0 is /dev/null by now, so the lock file has a higher number
        close_from(1, open_files);
        #[cfg(target_os = "linux")]
        libc::prctl(libc::PR_SET_NAME, c"duly-guardian".as_ptr());
        for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGPIPE] {
            libc::signal(signal, libc::SIG_IGN); // at a shutdown of the machine the server ends itself, then we do
        }
        interrupt_on(libc::SIGCHLD);
        interrupt_on(libc::SIGALRM);
        // Blocks until nobody is attached. The end of the server interrupts it; then there is nothing left to end, and
        // the next to attach or to revive starts another. (Missed because it came before the wait: noticed after it.)
        while libc::flock(0, libc::LOCK_EX) != 0 {
            if libc::waitpid(server, std::ptr::null_mut(), libc::WNOHANG) != 0 {
                libc::_exit(0);
            }
        }
        // Who attaches now waits for the shared lock, and gets it when we have gone and the server with us.
        if libc::waitpid(server, std::ptr::null_mut(), libc::WNOHANG) == 0 {
            end(server);
        }
        libc::_exit(0)
    }
}

/// Ends our own child, so its number cannot belong to another process.
///
/// # Safety
/// Only in the guardian.
unsafe fn end(server: pid_t) {
    // SAFETY: system calls on integers.
    unsafe {
        libc::kill(server, libc::SIGTERM);
        libc::alarm(SERVER_END_S);
        while libc::waitpid(server, std::ptr::null_mut(), 0) == -1 && errno() == libc::EINTR {
            // Interrupted by SIGCHLD (the server has ended: SIGKILL does nothing more) or by the alarm.
            if libc::alarm(0) == 0 {
                libc::kill(server, libc::SIGKILL);
            } else {
                libc::alarm(SERVER_END_S);
            }
        }
    }
}

/// Lets a signal break off a blocking call: a handler that does nothing, without `SA_RESTART`.
///
/// # Safety
/// Changes the signal handlers of the process.
unsafe fn interrupt_on(signal: c_int) {
    extern "C" fn nothing(_: c_int) {}
    // SAFETY: all-zero is a valid sigaction (no flags, an empty mask), and the handler is async-signal-safe.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = nothing as extern "C" fn(c_int) as libc::sighandler_t;
        libc::sigaction(signal, &raw const action, std::ptr::null_mut());
    }
}

/// # Safety
/// Only in a process that was just forked.
unsafe fn close_on_exec(open_files: c_int) {
    // SAFETY: marks files that the exec'd program does not know of (php-fpm's listening socket, say).
    unsafe {
        #[cfg(target_os = "linux")]
        if libc::syscall(libc::SYS_close_range, 3u32, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) == 0 {
            return;
        }
        for file in 3..=open_files {
            libc::fcntl(file, libc::F_SETFD, libc::FD_CLOEXEC);
        }
    }
}

/// # Safety
/// Only in a process that was just forked.
unsafe fn close_from(first: c_uint, open_files: c_int) {
    // SAFETY: the guardian uses no file at or above `first`.
    unsafe {
        #[cfg(target_os = "linux")]
        if libc::syscall(libc::SYS_close_range, first, u32::MAX, 0u32) == 0 {
            return;
        }
        for file in first.cast_signed()..=open_files {
            libc::close(file);
        }
    }
}

/// For kernels without `close_range` (Linux before 5.9, others): the highest file that is open, and some room for
/// what other threads open meanwhile. The limit of open files would be a billion closes in some containers.
fn highest_open_file() -> c_int {
    let number = |name: std::ffi::OsString| name.to_str()?.parse::<c_int>().ok();
    let listed = std::fs::read_dir("/dev/fd").into_iter().flatten();
    let highest = listed.filter_map(|entry| number(entry.ok()?.file_name())).max();
    highest.unwrap_or(1024) + 256
}

fn checked(result: c_int) -> io::Result<c_int> {
    // `last_os_error` only reads errno: allowed after fork.
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn errno() -> c_int {
    io::Error::last_os_error().raw_os_error().unwrap_or(0)
}
