//! Signals as they come, for the thread beside the engine: PHP itself sees one only at its next tick, which in a query is
//! its end. What PHP has set for a signal is called as before.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Signals that a worker may ask for have smaller numbers.
const MOST: usize = 32;

/// How many came in this process since the first worker asked for them.
static CAME: AtomicU64 = AtomicU64::new(0);
/// What was set for each before.
static BEFORE: [AtomicUsize; MOST] = [const { AtomicUsize::new(libc::SIG_DFL) }; MOST];

type Handler = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);

/// How many came so far.
pub fn came() -> u64 {
    CAME.load(Ordering::Acquire)
}

/// Counts this signal from now on, until PHP sets another handler for it; false where PHP has none.
pub fn heed(signal: i64) -> bool {
    let Some((signal, before)) = i32::try_from(signal).ok().zip(usize::try_from(signal).ok()) else { return false };
    let Some(before) = BEFORE.get(before) else { return false };
    // SAFETY: all zeros is a valid action, the calls fill or read it, and it lives until they return. The handler is set with
    // the flags of the one that it calls.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        let is_set = libc::sigaction(signal, std::ptr::null(), &raw mut action) == 0;
        let ours = caught as Handler as usize;
        if !is_set || [libc::SIG_DFL, libc::SIG_IGN, ours].contains(&action.sa_sigaction) {
            return false;
        }
        before.store(action.sa_sigaction, Ordering::Release);
        action.sa_sigaction = ours;
        action.sa_flags |= libc::SA_SIGINFO;
        libc::sigaction(signal, &raw const action, std::ptr::null_mut()) == 0
    }
}

/// Touches nothing but atomics, as is right for a signal handler.
extern "C" fn caught(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    CAME.fetch_add(1, Ordering::AcqRel);
    let before = usize::try_from(signal).ok().and_then(|signal| BEFORE.get(signal));
    if let Some(before) = before.map(|before| before.load(Ordering::Acquire))
        && ![libc::SIG_DFL, libc::SIG_IGN].contains(&before)
    {
        // SAFETY: it was set as a handler of this signal; one that takes only the number ignores the rest.
        let before = unsafe { std::mem::transmute::<usize, Handler>(before) };
        before(signal, info, context);
    }
}
