//! Asks several servers the same question, because any of them may be dead.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;

use super::trouble::Trouble;

/// How long one is asked alone before the next is asked too. A dead one costs this much, and not a whole connect timeout: with
/// a short deadline nobody behind it would ever be asked.
const HEAD_START: Duration = Duration::from_millis(200);

/// The first good answer; else the last trouble, if anybody was asked. `turn` counts the questions, so that the next asking
/// can begin where this one did not come to.
pub(super) async fn first_answer<A, T, F>(
    candidates: Vec<A>,
    turn: &AtomicUsize,
    ask: impl Fn(A) -> F,
) -> Result<T, Option<Trouble>>
where
    T: Send + 'static,
    F: Future<Output = Result<T, Trouble>> + Send + 'static,
{
    let mut candidates = candidates.into_iter();
    let mut questions = JoinSet::new();
    let mut last_trouble = None;
    loop {
        if let Some(next) = candidates.next() {
            turn.fetch_add(1, Ordering::Relaxed);
            questions.spawn(ask(next));
        }
        let is_last = candidates.len() == 0;
        tokio::select! {
            answer = questions.join_next() => match answer {
                Some(Ok(Ok(answer))) => return Ok(answer),
                Some(Ok(Err(trouble))) => last_trouble = Some(Trouble { may_have_run: false, ..trouble }),
                Some(Err(_)) => {}
                None => return Err(last_trouble),
            },
            () = tokio::time::sleep(HEAD_START), if !is_last => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::error::{Error, ErrorKind};

    fn dead(name: &'static str) -> Trouble {
        Trouble::no_connection(Error::new(ErrorKind::Unreachable, name))
    }

    #[tokio::test]
    async fn silent_servers_hold_up_nobody_behind_them() {
        let turn = AtomicUsize::new(0);
        let ask = |name: &'static str| async move {
            match name {
                "silent" => std::future::pending().await,
                "dead" => Err(dead(name)),
                name => Ok(name),
            }
        };
        let answer = first_answer(vec!["silent", "dead", "silent", "alive", "never asked"], &turn, ask).await;
        assert_eq!(answer.unwrap(), "alive");
        assert_eq!(turn.load(Ordering::Relaxed), 4);
        let trouble = first_answer(vec!["dead", "dead"], &turn, ask).await.unwrap_err().unwrap();
        assert_eq!(trouble.error.to_string(), "dead");
        assert!(first_answer(Vec::<&str>::new(), &turn, ask).await.unwrap_err().is_none());
    }
}
