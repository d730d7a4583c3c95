//! Calls of many tasks at once, sent as one: while a call is on its way, those that come after it gather, and go together
//! when it is answered. A lone caller never waits for company and pays nothing.
//!
//! The same idea as a database's group commit. Fifty tasks that push one job each through one client cost the server a few
//! script calls, not fifty.

use std::future::Future;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use crate::error::{Error, ErrorKind};

/// The most calls that go as one: what a script takes.
const MOST: usize = crate::queue::MAX_BATCH;

/// Gathers calls of one kind. `In` is one caller's part, `Out` its part of the answer.
pub(crate) struct Combiner<In, Out> {
    gathered: Mutex<Gathered<In, Out>>,
}

struct Gathered<In, Out> {
    /// A call is on its way.
    busy: bool,
    waiting: Vec<(In, oneshot::Sender<Result<Out, Error>>)>,
}

impl<In, Out> Combiner<In, Out>
where
    In: Send + 'static,
    Out: Send + 'static,
{
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { gathered: Mutex::new(Gathered { busy: false, waiting: Vec::new() }) })
    }

    /// Sends this caller's part, alone or with others. `send` takes the parts of one call and gives as many answers, in
    /// order.
    pub(crate) async fn call<S, F>(self: &Arc<Self>, part: In, send: S) -> Result<Out, Error>
    where
        S: Fn(Vec<In>) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Result<Vec<Out>, Error>> + Send + 'static,
    {
        let gathers = {
            let mut gathered = self.lock();
            if gathered.busy {
                let (answer, answered) = oneshot::channel();
                gathered.waiting.push((part, answer));
                Err(answered)
            } else {
                gathered.busy = true;
                Ok(part)
            }
        };
        match gathers {
            Ok(part) => {
                // Also when this future is dropped half-way, those who gathered meanwhile are sent.
                let _others = SendOthers { combiner: self, send: send.clone() };
                let mut answers = send(vec![part]).await?;
                answers.pop().ok_or_else(no_answer)
            }
            Err(answered) => answered.await.unwrap_or_else(|_| Err(no_answer())),
        }
    }

    /// Sends who has gathered until nobody has. Runs as a task of its own, because no caller may depend on another's future
    /// being polled.
    async fn send_gathered<S, F>(self: Arc<Self>, send: S)
    where
        S: Fn(Vec<In>) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Result<Vec<Out>, Error>> + Send + 'static,
    {
        loop {
            let batch = {
                let mut gathered = self.lock();
                if gathered.waiting.is_empty() {
                    gathered.busy = false;
                    return;
                }
                let later = gathered.waiting.len().min(MOST);
                let rest = gathered.waiting.split_off(later);
                mem::replace(&mut gathered.waiting, rest)
            };
            let (parts, callers): (Vec<_>, Vec<_>) = batch.into_iter().unzip();
            match send(parts).await {
                Ok(answers) => {
                    // A caller that is gone no longer wants its answer.
                    callers.into_iter().zip(answers).for_each(|(caller, answer)| drop(caller.send(Ok(answer))));
                }
                Err(error) => callers.into_iter().for_each(|caller| drop(caller.send(Err(error.clone())))),
            }
        }
    }

    /// Nothing that is done under the lock can panic, so a poisoned one is still whole.
    fn lock(&self) -> MutexGuard<'_, Gathered<In, Out>> {
        self.gathered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct SendOthers<'a, In, Out, S, F>
where
    In: Send + 'static,
    Out: Send + 'static,
    S: Fn(Vec<In>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Result<Vec<Out>, Error>> + Send + 'static,
{
    combiner: &'a Arc<Combiner<In, Out>>,
    send: S,
}

impl<In, Out, S, F> Drop for SendOthers<'_, In, Out, S, F>
where
    In: Send + 'static,
    Out: Send + 'static,
    S: Fn(Vec<In>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Result<Vec<Out>, Error>> + Send + 'static,
{
    fn drop(&mut self) {
        let mut gathered = self.combiner.lock();
        if gathered.waiting.is_empty() {
            gathered.busy = false;
            return;
        }
        drop(gathered);
        // Outside a runtime nobody can be waiting: all callers' futures are gone with it.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(Arc::clone(self.combiner).send_gathered(self.send.clone()));
        }
    }
}

fn no_answer() -> Error {
    Error::new(ErrorKind::Internal, "a call that went together with others got no answer of its own")
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::Semaphore;

    #[tokio::test]
    async fn who_comes_while_a_call_is_on_its_way_goes_with_the_next() {
        let combiner = Combiner::<u32, u32>::new();
        let calls = Arc::new(Mutex::new(Vec::new()));
        let gate = Arc::new(Semaphore::new(0));
        let send = {
            let (calls, gate) = (Arc::clone(&calls), Arc::clone(&gate));
            move |parts: Vec<u32>| {
                let (calls, gate) = (Arc::clone(&calls), Arc::clone(&gate));
                async move {
                    calls.lock().unwrap().push(parts.len());
                    gate.acquire().await.unwrap().forget();
                    Ok(parts.iter().map(|part| part * 10).collect())
                }
            }
        };
        let mut tasks = tokio::task::JoinSet::new();
        for part in 0..5 {
            let (combiner, send) = (Arc::clone(&combiner), send.clone());
            tasks.spawn(async move { (part, combiner.call(part, send).await.unwrap()) });
        }
        while combiner.lock().waiting.len() < 4 {
            tokio::task::yield_now().await;
        }
        gate.add_permits(2);
        while let Some(answered) = tasks.join_next().await {
            let (part, answer) = answered.unwrap();
            assert_eq!(answer, part * 10);
        }
        assert_eq!(*calls.lock().unwrap(), [1, 4]);
    }

    #[tokio::test]
    async fn a_dropped_first_caller_leaves_nobody_behind() {
        let combiner = Combiner::<u32, u32>::new();
        let gate = Arc::new(Semaphore::new(0));
        let send = {
            let gate = Arc::clone(&gate);
            move |parts: Vec<u32>| {
                let gate = Arc::clone(&gate);
                async move {
                    gate.acquire().await.unwrap().forget();
                    Ok(parts)
                }
            }
        };
        let first = tokio::spawn({
            let (combiner, send) = (Arc::clone(&combiner), send.clone());
            async move { combiner.call(1, send).await }
        });
        while !combiner.lock().busy {
            tokio::task::yield_now().await;
        }
        let second = tokio::spawn({
            let combiner = Arc::clone(&combiner);
            async move { combiner.call(2, send).await }
        });
        while combiner.lock().waiting.is_empty() {
            tokio::task::yield_now().await;
        }
        first.abort();
        gate.add_permits(1);
        assert_eq!(second.await.unwrap().unwrap(), 2);
    }
}
