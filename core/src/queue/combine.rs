//! Calls of many tasks at once, sent as one: while a call is on its way, those that come after it gather, and go together
//! when it is answered. A lone caller never waits for company and pays nothing.
//!
//! A task that sends all calls would be simpler, but a lone push or ack then takes 27 % more instructions and four allocations more (by
//! `make guard`), which is why the first caller sends its own.
//!
//! The same idea as a database's group commit. Fifty tasks that push one job each through one client cost the server a few
//! script calls, not fifty.

use std::future::Future;
use std::mem;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;

use crate::value::error::{Error, ErrorKind};

/// The most calls that go as one: what a script takes.
const MOST: usize = crate::queue::MAX_BATCH;
/// A caller that waits this long for a call that another one makes goes without it: that caller may hold its future without
/// polling it, as `select!` lets it, and come back to it only when we are done.
const PATIENCE: Duration = Duration::from_millis(100);
/// A call of those who gathered is waited for so many times longer: it is made for sure, and takes its time where the line is slow.
const LONGER: u32 = 3;
/// With each call without an answer twice as long, so many times at the most: each of them tries to reach the server again and again.
const MOST_DOUBLED: u32 = 3;

/// Waits for so many times [`PATIENCE`]: once for a call that a caller makes, and more often for one that a task makes.
#[cfg(not(test))]
async fn out_of_patience(times: u32) {
    tokio::time::sleep(times * PATIENCE).await;
}

#[cfg(test)]
thread_local! {
    /// That with a call of a caller, and that with one of a task.
    static PATIENCE_ENDS: std::cell::RefCell<Option<[Arc<tokio::sync::Notify>; 2]>> = const { std::cell::RefCell::new(None) };
}

/// In the test of orders, patience ends by an event and not by time.
#[cfg(test)]
async fn out_of_patience(times: u32) {
    let ends = PATIENCE_ENDS.with_borrow(Clone::clone);
    match ends {
        Some([with_callers, with_tasks]) => if times == 1 { with_callers } else { with_tasks }.notified().await,
        None => tokio::time::sleep(times * PATIENCE).await,
    }
}

/// Gathers calls of one kind. `In` is one caller's part, `Out` its part of the answer.
pub(crate) struct Combiner<In, Out> {
    gathered: Mutex<Gathered<In, Out>>,
}

struct Gathered<In, Out> {
    under_way: UnderWay,
    /// Calls of those who gathered that are not waited for any more, and have no answer yet.
    late: u32,
    calls: u64,
    waiting: Vec<(In, oneshot::Sender<Result<Out, Error>>)>,
}

/// The call that others gather behind.
#[derive(Clone, Copy, PartialEq, Eq)]
enum UnderWay {
    None,
    /// It is made by one of the callers, and has this number.
    ByCaller(u64),
    /// It is made by a task of its own.
    ByTask,
}

impl<In, Out> Combiner<In, Out>
where
    In: Send + 'static,
    Out: Send + 'static,
{
    pub(crate) fn new() -> Arc<Self> {
        let gathered = Gathered { under_way: UnderWay::None, late: 0, calls: 0, waiting: Vec::new() };
        Arc::new(Self { gathered: Mutex::new(gathered) })
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
            if gathered.under_way == UnderWay::None {
                gathered.calls += 1;
                gathered.under_way = UnderWay::ByCaller(gathered.calls);
                Ok((part, gathered.calls))
            } else {
                let (answer, answered) = oneshot::channel();
                gathered.waiting.push((part, answer));
                let watched = (gathered.waiting.len() == 1).then_some(gathered.under_way);
                Err((answered, watched))
            }
        };
        match gathers {
            Ok((part, number)) => {
                // Also when this future is dropped half-way, those who gathered meanwhile are sent.
                let _others = SendOthers { combiner: self, number, send: send.clone() };
                let mut answers = send(vec![part]).await?;
                answers.pop().ok_or_else(no_answer)
            }
            Err((answered, watched)) => {
                if let Some(UnderWay::ByCaller(number)) = watched {
                    tokio::spawn(Arc::clone(self).take_over(number, send));
                }
                answered.await.unwrap_or_else(|_| Err(no_answer()))
            }
        }
    }

    /// Sends who has gathered behind this call if its caller does not come to an end.
    async fn take_over<S, F>(self: Arc<Self>, number: u64, send: S)
    where
        S: Fn(Vec<In>) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Result<Vec<Out>, Error>> + Send + 'static,
    {
        out_of_patience(1).await;
        if self.lock().pass_to_task(number) {
            self.send_gathered(send).await;
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
            let (batch, times) = {
                let mut gathered = self.lock();
                // A caller that is gone wants nothing to be sent any more.
                gathered.waiting.retain(|(_, caller)| !caller.is_closed());
                if gathered.waiting.is_empty() {
                    gathered.under_way = UnderWay::None;
                    return;
                }
                let later = gathered.waiting.len().min(MOST);
                let rest = gathered.waiting.split_off(later);
                // Behind a full one there are more already.
                let doubled = if rest.is_empty() { gathered.late.min(MOST_DOUBLED) } else { 0 };
                (mem::replace(&mut gathered.waiting, rest), LONGER << doubled)
            };
            let (parts, callers): (Vec<_>, Vec<_>) = batch.into_iter().unzip();
            let mut sending = pin!(send(parts));
            let in_time = tokio::select! {
                biased;
                answers = &mut sending => Some(answers),
                () = out_of_patience(times) => None,
            };
            let is_late = in_time.is_none();
            let answers = if let Some(answers) = in_time {
                answers
            } else {
                // In an outage it takes as long as its deadline. That of those who have come since begins now.
                let _late = Late::new(&self);
                self.clone().go_on_without(send.clone());
                sending.await
            };
            match answers {
                Ok(answers) => {
                    // A caller that is gone no longer wants its answer.
                    callers.into_iter().zip(answers).for_each(|(caller, answer)| drop(caller.send(Ok(answer))));
                }
                Err(error) => callers.into_iter().for_each(|caller| drop(caller.send(Err(error.clone())))),
            }
            if is_late {
                return;
            }
        }
    }

    /// Sends who gathers behind a call that is still under way.
    fn go_on_without<S, F>(self: Arc<Self>, send: S)
    where
        S: Fn(Vec<In>) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Result<Vec<Out>, Error>> + Send + 'static,
    {
        // Named, or the type of a future would be in itself.
        let going_on: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(self.send_gathered(send));
        tokio::spawn(going_on);
    }

    /// Nothing that is done under the lock can panic, so a poisoned one is still whole.
    fn lock(&self) -> MutexGuard<'_, Gathered<In, Out>> {
        self.gathered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<In, Out> Gathered<In, Out> {
    /// The call of this number is no longer waited for. Gives whether a task must send who has gathered behind it.
    fn pass_to_task(&mut self, number: u64) -> bool {
        if self.under_way != UnderWay::ByCaller(number) {
            return false;
        }
        let any = !self.waiting.is_empty();
        self.under_way = if any { UnderWay::ByTask } else { UnderWay::None };
        any
    }
}

/// A call that is late, also if its task is dropped.
struct Late<'a, In: Send + 'static, Out: Send + 'static>(&'a Combiner<In, Out>);

impl<'a, In: Send + 'static, Out: Send + 'static> Late<'a, In, Out> {
    fn new(combiner: &'a Combiner<In, Out>) -> Self {
        combiner.lock().late += 1;
        Self(combiner)
    }
}

impl<In: Send + 'static, Out: Send + 'static> Drop for Late<'_, In, Out> {
    fn drop(&mut self) {
        self.0.lock().late -= 1;
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
    number: u64,
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
        let runtime = tokio::runtime::Handle::try_current();
        let mut gathered = self.combiner.lock();
        match runtime {
            Ok(runtime) if gathered.pass_to_task(self.number) => {
                drop(gathered);
                runtime.spawn(Arc::clone(self.combiner).send_gathered(self.send.clone()));
            }
            // Those that wait go with the next call.
            Err(_) if gathered.under_way == UnderWay::ByCaller(self.number) => gathered.under_way = UnderWay::None,
            _ => {}
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
        while combiner.lock().under_way == UnderWay::None {
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

    #[tokio::test]
    async fn what_a_caller_gave_up_before_it_was_sent_is_not_sent() {
        let combiner = Combiner::<u32, u32>::new();
        let parts_sent = Arc::new(Mutex::new(Vec::new()));
        let gate = Arc::new(Semaphore::new(0));
        let send = {
            let (parts_sent, gate) = (Arc::clone(&parts_sent), Arc::clone(&gate));
            move |parts: Vec<u32>| {
                let (parts_sent, gate) = (Arc::clone(&parts_sent), Arc::clone(&gate));
                async move {
                    parts_sent.lock().unwrap().extend_from_slice(&parts);
                    gate.acquire().await.unwrap().forget();
                    Ok(parts)
                }
            }
        };
        let mut calls = Vec::new();
        for part in 1..4 {
            let (waiting, send) = (Arc::clone(&combiner), send.clone());
            calls.push(tokio::spawn(async move { waiting.call(part, send).await }));
            let waiting = usize::try_from(part - 1).unwrap();
            while combiner.lock().under_way == UnderWay::None || combiner.lock().waiting.len() < waiting {
                tokio::task::yield_now().await;
            }
        }
        calls[1].abort();
        assert!((&mut calls[1]).await.unwrap_err().is_cancelled());
        gate.add_permits(2);
        assert_eq!(calls.pop().unwrap().await.unwrap().unwrap(), 3);
        assert_eq!(*parts_sent.lock().unwrap(), [1, 3]);
    }

    #[test]
    fn a_first_caller_that_is_dropped_outside_a_runtime_holds_nobody_up() {
        let combiner = Combiner::<u32, u32>::new();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let mut first = Box::pin(combiner.call(1, |_| std::future::pending()));
        let mut second = Box::pin(combiner.call(2, |parts: Vec<u32>| async move { Ok(parts) }));
        runtime.block_on(std::future::poll_fn(|context| {
            assert!(first.as_mut().poll(context).is_pending());
            assert!(second.as_mut().poll(context).is_pending());
            std::task::Poll::Ready(())
        }));
        drop(first);
        let third = combiner.call(3, |parts: Vec<u32>| async move { Ok(parts) });
        assert_eq!(runtime.block_on(third).unwrap(), 3);
        assert_eq!(runtime.block_on(second).unwrap(), 2);
    }

    #[tokio::test]
    async fn a_first_caller_that_is_not_polled_holds_nobody_up() {
        let combiner = Combiner::<u32, u32>::new();
        let first = combiner.call(1, |parts: Vec<u32>| async move {
            tokio::task::yield_now().await;
            Ok(parts)
        });
        let mut first = std::pin::pin!(first);
        tokio::select! {
            biased;
            _ = &mut first => unreachable!("it yields"),
            () = std::future::ready(()) => {}
        }
        assert_eq!(combiner.call(2, |parts: Vec<u32>| async move { Ok(parts) }).await.unwrap(), 2);
        assert_eq!(first.await.unwrap(), 1);
        assert!(combiner.lock().under_way == UnderWay::None);
    }

    #[tokio::test]
    async fn nobody_gathers_for_longer_behind_a_call_without_an_answer() {
        let combiner = Combiner::<usize, usize>::new();
        let sizes = Arc::new(Mutex::new(Vec::new()));
        let gate = Arc::new(Semaphore::new(0));
        let send = {
            let (sizes, gate) = (Arc::clone(&sizes), Arc::clone(&gate));
            move |parts: Vec<usize>| {
                let (sizes, gate) = (Arc::clone(&sizes), Arc::clone(&gate));
                async move {
                    sizes.lock().unwrap().push(parts.len());
                    gate.acquire().await.unwrap().forget();
                    Ok(parts)
                }
            }
        };
        let mut tasks = tokio::task::JoinSet::new();
        let mut come = |part: usize| {
            let (combiner, send) = (Arc::clone(&combiner), send.clone());
            tasks.spawn(async move { (part, combiner.call(part, send).await.unwrap()) });
        };
        let until_there_are = async |calls: usize| {
            while sizes.lock().unwrap().len() < calls {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        come(0);
        until_there_are(1).await;
        (1..=2 * MOST + 1).for_each(&mut come);
        // One call after the other is sent, though none is answered.
        until_there_are(4).await;
        come(2 * MOST + 2);
        until_there_are(5).await;
        assert_eq!(*sizes.lock().unwrap(), [1, MOST, MOST, 1, 1]);
        assert_eq!(combiner.lock().late, 3, "but for the first one, and the last one yet");
        gate.add_permits(5);
        while let Some(answered) = tasks.join_next().await {
            let (part, answer) = answered.unwrap();
            assert_eq!(answer, part, "each has its own answer");
        }
        assert!(combiner.lock().under_way == UnderWay::None && combiner.lock().waiting.is_empty());
    }

    /// What callers do and what becomes of calls.
    enum Event {
        Come,
        Go(usize),
        /// A call is answered.
        Answer(usize),
        /// Who waits for a call of a caller, or of a task, runs out of patience.
        OutOfPatience(usize),
    }

    /// A call that was sent, until it is answered or dropped.
    type Sent = (Vec<usize>, oneshot::Sender<()>);

    /// Callers come and go in the order that is drawn. Gives how many calls were late at once, or what was wrong.
    async fn callers(draw: &mut dyn FnMut(usize) -> usize, events: usize) -> Result<u32, String> {
        let combiner = Combiner::<usize, usize>::new();
        let patience_ends: [Arc<tokio::sync::Notify>; 2] = Default::default();
        PATIENCE_ENDS.set(Some(patience_ends.clone()));
        let calls: Arc<Mutex<Vec<Sent>>> = Arc::default();
        let gone: Arc<Mutex<Vec<usize>>> = Arc::default();
        let faults: Arc<Mutex<Vec<String>>> = Arc::default();
        let ever_sent: Arc<Mutex<Vec<usize>>> = Arc::default();
        let send = {
            let (calls, gone, faults) = (Arc::clone(&calls), Arc::clone(&gone), Arc::clone(&faults));
            let ever_sent = Arc::clone(&ever_sent);
            move |parts: Vec<usize>| {
                let (answer, answered) = oneshot::channel();
                for part in &parts {
                    if gone.lock().unwrap().contains(part) {
                        faults.lock().unwrap().push(format!("{part} was sent after its caller had gone"));
                    }
                    if ever_sent.lock().unwrap().contains(part) {
                        faults.lock().unwrap().push(format!("{part} was sent twice"));
                    }
                    ever_sent.lock().unwrap().push(*part);
                }
                calls.lock().unwrap().push((parts.clone(), answer));
                async move {
                    answered.await.map_err(|_| no_answer())?;
                    Ok(parts.iter().map(|part| part * 10).collect())
                }
            }
        };
        let mut tasks: Vec<tokio::task::JoinHandle<Result<usize, Error>>> = Vec::new();
        let mut most_late = 0;
        for event in 0..events + 10 {
            calls.lock().unwrap().retain(|(_, answer)| !answer.is_closed());
            let under_way = calls.lock().unwrap().len();
            let is_gone = |part: &usize| gone.lock().unwrap().contains(part);
            let here = (0..tasks.len()).filter(|part| !tasks[*part].is_finished() && !is_gone(part));
            let mut possible: Vec<Event> = (0..under_way).map(Event::Answer).collect();
            // In the end all calls are answered.
            if event < events {
                possible.extend(here.map(Event::Go));
                possible.push(Event::Come);
                if under_way > 0 {
                    possible.extend([Event::OutOfPatience(0), Event::OutOfPatience(1)]);
                }
            }
            if possible.is_empty() {
                break;
            }
            let chosen = if event < events { draw(possible.len()) } else { 0 };
            match possible.swap_remove(chosen) {
                Event::Come => {
                    let (combiner, send, part) = (Arc::clone(&combiner), send.clone(), tasks.len());
                    tasks.push(tokio::spawn(async move { combiner.call(part, send).await }));
                }
                Event::Go(part) => {
                    gone.lock().unwrap().push(part);
                    tasks[part].abort();
                }
                Event::Answer(call) => drop(calls.lock().unwrap().remove(call).1.send(())),
                Event::OutOfPatience(with) => patience_ends[with].notify_waiters(),
            }
            for _ in 0..8 {
                tokio::task::yield_now().await;
            }
            most_late = most_late.max(combiner.lock().late);
        }
        for (part, task) in tasks.into_iter().enumerate() {
            if gone.lock().unwrap().contains(&part) {
                continue;
            }
            if !task.is_finished() {
                return Err(format!("{part} waits for ever"));
            }
            let answer = task.await.map_err(|error| error.to_string())?;
            if answer.as_ref().ok() != Some(&(part * 10)) {
                return Err(format!("{part} was answered {answer:?}"));
            }
        }
        faults.lock().unwrap().pop().map_or(Ok(most_late), Err)
    }

    #[test]
    fn no_order_of_coming_going_and_answers_loses_doubles_or_mixes_up_a_call() {
        let (mut with_one_late, mut with_two_late) = (0, 0);
        let orders = crate::every_order::every_order(|draw| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
            let most_late = runtime.block_on(callers(draw, 8))?;
            with_one_late += u32::from(most_late == 1);
            with_two_late += u32::from(most_late > 1);
            Ok(())
        });
        let orders = orders.unwrap();
        assert!(
            orders > 10_000 && with_one_late > 1000 && with_two_late > 10,
            "{orders} {with_one_late} {with_two_late}"
        );
    }
}
