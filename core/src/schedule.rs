//! Schedules: jobs that come again and again, by a cron pattern or at an interval.
//!
//! A queue keeps its schedules with their next slots. Any worker of the queue fires what is due, with one script that compares the
//! slot and the revision that the worker read with what is stored: of all that try, in whatever language, one pushes the job of a
//! slot. Nobody is elected, and no job pushes the next one.
//!
//! | file | duty |
//! |---|---|
//! | `definition.rs` | what a user says of a schedule, and its canonical text |
//! | `plan.rs` | which slots fire now, and which one is next: pure |
//! | `state.rs` | what is stored beside the definition |
//! | `verbs.rs`, `sync.rs` | put, remove, pause and the like |
//! | `fire.rs` | what a worker does when one is due |
//! | `checks.rs` | what must hold of any that is stored: for tests |

#[cfg(any(test, fuzzing))]
mod checks;
mod definition;
mod fire;
mod plan;
mod state;
mod sync;
mod verbs;

#[cfg(any(test, fuzzing))]
pub(crate) use checks::check_stored;
pub use definition::{Overlap, Schedule};
pub use state::{Fire, FireOutcome, ScheduleView};
pub use sync::{OwnSchedules, SyncReport};
pub use verbs::{PutSchedule, Schedules};
