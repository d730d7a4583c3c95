//! How long an answer is waited for: for as long as there are signs of life, or may be some that are not seen.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use redis::{Arg, Cmd};
use tokio::time::{Instant, timeout_at};

/// How long to wait for an answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    /// Without a sign of life: a large answer over a slow line takes its time.
    pub(super) silence: Duration,
    /// Whatever comes.
    pub(super) until: Instant,
}

impl Patience {
    /// Until then, for an answer that is small.
    pub(super) fn until(until: Instant) -> Self {
        Self { silence: until.saturating_duration_since(Instant::now()), until }
    }

    /// The same, and so much longer.
    pub(super) fn and(self, more: Duration) -> Self {
        Self { silence: self.silence.saturating_add(more), until: self.until + more }
    }

    fn next_look(&self) -> Instant {
        self.until.min(Instant::now() + self.silence / LOOKS)
    }
}

/// Silence is looked for so many times in its length.
const LOOKS: u32 = 4;
/// So many bytes of a call may be on their way and out of sight: the kernel has taken them, or a proxy.
const UNSEEN: usize = 144 * 1024;
/// The slowest line over which they are waited for, in bytes a second.
const SLOWEST: u32 = 16 * 1024;

/// How long the slowest line needs for so many bytes.
pub(crate) fn at_the_slowest(bytes: usize) -> Duration {
    Duration::from_secs(1).saturating_mul(u32::try_from(bytes).unwrap_or(u32::MAX)) / SLOWEST
}

/// The signs of life on one link.
pub(super) struct Life {
    signs: Arc<AtomicU64>,
    /// The bytes of the calls that have waited for a while. What is behind them on the link waits for them, too.
    slow_bytes: AtomicUsize,
}

/// Counts the bytes of a call for as long as it waits.
struct Slow<'a> {
    all: &'a AtomicUsize,
    bytes: usize,
}

impl Drop for Slow<'_> {
    fn drop(&mut self) {
        self.all.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl Life {
    pub(super) fn new(signs: Arc<AtomicU64>) -> Self {
        Self { signs, slow_bytes: AtomicUsize::new(0) }
    }

    /// The answer to this command; none when there was silence for too long, or it took too long altogether.
    pub(super) async fn wait<T>(
        &self,
        mut answer: Pin<&mut impl Future<Output = T>>,
        cmd: &Cmd,
        patience: Patience,
    ) -> Option<T> {
        let seen = self.signs.load(Ordering::Relaxed);
        if let Ok(answer) = timeout_at(patience.next_look(), &mut answer).await {
            return Some(answer);
        }
        // On the heap, because it is rare, and every call's future would have to have room for it.
        Box::pin(self.wait_on(answer, cmd, patience, seen)).await
    }

    async fn wait_on<T>(
        &self,
        mut answer: Pin<&mut impl Future<Output = T>>,
        cmd: &Cmd,
        patience: Patience,
        mut seen: u64,
    ) -> Option<T> {
        let bytes = size(cmd);
        self.slow_bytes.fetch_add(bytes, Ordering::Relaxed);
        let _slow = Slow { all: &self.slow_bytes, bytes };
        let mut quiet = 0;
        loop {
            let signs = self.signs.load(Ordering::Relaxed);
            quiet = if signs == seen { quiet + 1 } else { 0 };
            seen = signs;
            let too_quiet = (patience.silence / LOOKS).saturating_mul(quiet) >= patience.silence + self.out_of_sight();
            if too_quiet || Instant::now() >= patience.until {
                return None;
            }
            if let Ok(answer) = timeout_at(patience.next_look(), &mut answer).await {
                return Some(answer);
            }
        }
    }

    /// How long what is on its way may be out of sight.
    fn out_of_sight(&self) -> Duration {
        at_the_slowest(self.slow_bytes.load(Ordering::Relaxed).min(UNSEEN))
    }
}

/// How many bytes a command has, but for those of the protocol.
pub(super) fn size(cmd: &Cmd) -> usize {
    let size = |arg: Arg<&[u8]>| match arg {
        Arg::Simple(bytes) => bytes.len(),
        _ => 0,
    };
    cmd.args_iter().map(size).sum()
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::pin::pin;

    use super::*;

    const SILENCE: Duration = Duration::from_millis(40);
    /// Out of sight for a quarter of a second.
    const LARGE: usize = SLOWEST as usize / 4;

    /// For how long an answer that never comes is waited for.
    async fn waited(life: &Life, bytes: usize) -> Duration {
        let (began, call) = (Instant::now(), redis::cmd("SET").arg(vec![b'x'; bytes]).clone());
        let patience = Patience { silence: SILENCE, until: began + 20 * SILENCE };
        assert_eq!(life.wait(pin!(pending::<()>()), &call, patience).await, None);
        began.elapsed()
    }

    #[tokio::test]
    async fn a_call_without_an_answer_is_waited_for_as_long_as_a_slow_line_may_need_for_what_is_out_of_sight() {
        let life = Life::new(Arc::default());
        assert!(waited(&life, 0).await >= SILENCE);
        assert!(waited(&life, LARGE).await >= SILENCE + Duration::from_millis(250));
        assert!(waited(&life, LARGE * 100).await >= SILENCE * 20, "until the end");
        assert_eq!(life.out_of_sight(), Duration::ZERO);
        life.slow_bytes.store(LARGE * 1000, Ordering::Relaxed);
        assert_eq!(life.out_of_sight(), Duration::from_secs(9));
    }

    #[tokio::test]
    async fn what_is_behind_a_large_call_is_waited_for_with_it() {
        let life = Life::new(Arc::default());
        let (large, small) = tokio::join!(waited(&life, LARGE), waited(&life, 0));
        assert!(large.min(small) >= SILENCE + Duration::from_millis(250), "{small:?} {large:?}");
    }

    #[tokio::test]
    async fn a_sign_of_life_is_no_silence_and_the_end_is_the_end() {
        let life = Life::new(Arc::default());
        let lives = async {
            loop {
                tokio::time::sleep(SILENCE / LOOKS / 2).await;
                life.signs.fetch_add(1, Ordering::Relaxed);
            }
        };
        let waited = tokio::select! {
            waited = waited(&life, 0) => waited,
            () = lives => unreachable!(),
        };
        assert!(waited >= SILENCE * 20, "{waited:?}");
    }
}
