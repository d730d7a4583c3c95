//! Panics in code of the worker's user: they end there, and are failures.

use std::any::Any;
use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind};
use std::pin::pin;
use std::sync::Once;
use std::task::Poll;

use super::failure::{Failure, Origin};
use crate::value::retry::Outcome;

thread_local! {
    /// Where this thread panicked last: only a hook learns of it, and the thread that catches it is the same.
    static LAST: Cell<Option<String>> = const { Cell::new(None) };
}

/// From now on it is known where a panic was. The program's own hook, or that of the standard library, is called as before.
pub(super) fn note_locations() {
    static ONCE: Once = Once::new();
    // A thread that panics must not set a hook.
    if std::thread::panicking() {
        return;
    }
    ONCE.call_once(|| {
        let earlier = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic: &PanicHookInfo<'_>| {
            // In vain in a thread that ends.
            let _ = LAST.try_with(|last| last.set(panic.location().map(ToString::to_string)));
            earlier(panic);
        }));
    });
}

/// Awaits what runs code of the worker's user; a panic ends there and is a failure.
pub(super) async fn caught<F: Future>(future: F) -> Result<F::Output, Failure> {
    let mut future = pin!(future);
    poll_fn(|context| match guarded(|| future.as_mut().poll(context)) {
        Ok(polled) => polled.map(Ok),
        Err(panicked) => Poll::Ready(Err(panicked)),
    })
    .await
}

/// Runs code of the worker's user; a panic ends there and is a failure.
pub(super) fn guarded<T>(code: impl FnOnce() -> T) -> Result<T, Failure> {
    catch_unwind(AssertUnwindSafe(code)).map_err(failure)
}

fn failure(panic: Box<dyn Any + Send>) -> Failure {
    let text = panic.downcast_ref::<&str>().copied().or(panic.downcast_ref::<String>().map(String::as_str));
    let failure = Failure {
        outcome: Outcome::FAILURE,
        error: format!("panicked: {}", text.unwrap_or_default()),
        origin: Origin::of_panic(LAST.take()),
    };
    // What was thrown may panic in its turn when it is dropped.
    if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
        std::mem::forget(again);
    }
    failure
}
