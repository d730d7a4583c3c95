//! What was asked about: the jobs themselves, so that a yes means these and no others.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::door::secret;
use super::matches::Found;

/// The questions that are remembered.
const MOST: usize = 100;

/// The jobs that one question is about, and all of them together, 100 to 200 bytes each: so four large ones, of four tabs of a browser, are
/// open at once.
pub(crate) const MOST_JOBS_OF_ONE: usize = 250_000;
const MOST_JOBS: usize = 4 * MOST_JOBS_OF_ONE;

/// The questions that nobody has answered yet; the oldest ones go.
#[derive(Debug, Default)]
pub(crate) struct Asked(Mutex<VecDeque<Question>>);

#[derive(Debug)]
struct Question {
    /// What its form holds.
    secret: String,
    about: String,
    found: Found,
}

impl Asked {
    /// Nothing that is done under the lock can panic half way.
    fn questions(&self) -> MutexGuard<'_, VecDeque<Question>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers it. Gives what its form is to hold; nothing without random numbers.
    pub(crate) fn note(&self, about: String, found: Found) -> Option<String> {
        let secret = secret().ok()?;
        self.put_back(secret.clone(), about, found);
        Some(secret)
    }

    /// The answer did nothing, and may be given again.
    pub(crate) fn put_back(&self, secret: String, about: String, found: Found) {
        let mut questions = self.questions();
        questions.push_back(Question { secret, about, found });
        let jobs: Vec<_> = questions.iter().map(|question| question.found.jobs.len()).collect();
        questions.drain(..too_many(&jobs));
    }

    /// Nothing if it is forgotten, or was about something else.
    pub(crate) fn take(&self, secret: &str, about: &str) -> Option<Found> {
        let mut questions = self.questions();
        let at = questions.iter().position(|question| question.secret == secret && question.about == about)?;
        questions.remove(at).map(|question| question.found)
    }
}

/// How many of the oldest questions go, whose jobs are so many each. The newest one stays.
fn too_many(jobs: &[usize]) -> usize {
    let (mut together, mut kept) = (0, 0);
    for count in jobs.iter().rev() {
        together += count;
        if kept == MOST || (kept > 0 && together > MOST_JOBS) {
            break;
        }
        kept += 1;
    }
    jobs.len() - kept
}

#[cfg(test)]
mod tests {
    use duly::{Client, Filter, State};

    use super::*;

    #[test]
    fn a_question_is_answered_once_and_about_what_it_asked() {
        let client = Client::builder().url("redis://127.0.0.1:1").build().unwrap();
        let queue = client.queue("mail").unwrap();
        let found = || Found { jobs: queue.matching(State::Failed, Filter::new()).unwrap(), is_all: true };
        let asked = Asked::default();
        let secrets: Vec<_> = (0..MOST).map(|_| asked.note("this".to_owned(), found()).unwrap()).collect();
        assert!(asked.take(&secrets[0], "that").is_none() && asked.take("", "this").is_none());
        let taken = asked.take(&secrets[0], "this").unwrap();
        assert!(asked.take(&secrets[0], "this").is_none());
        asked.put_back(secrets[0].clone(), "this".to_owned(), taken);
        assert!(asked.take(&secrets[0], "this").is_some());
        for _ in 0..2 {
            asked.note("this".to_owned(), found()).unwrap();
        }
        assert!(asked.take(&secrets[1], "this").is_none(), "the oldest one goes");
        assert_eq!(secrets[2..].iter().filter(|secret| asked.take(secret, "this").is_some()).count(), MOST - 2);
    }

    #[test]
    fn a_large_question_forgets_no_other_large_one() {
        let large = [MOST_JOBS_OF_ONE; 6];
        assert_eq!([1, 2, 4, 5, 6].map(|open| too_many(&large[..open])), [0, 0, 0, 1, 2]);
        assert_eq!(too_many(&[MOST_JOBS_OF_ONE, 1, 1, 1]), 0);
        assert_eq!([too_many(&[MOST_JOBS + 1]), too_many(&[1, MOST_JOBS]), too_many(&[0; MOST + 3])], [0, 1, 3]);
    }
}
