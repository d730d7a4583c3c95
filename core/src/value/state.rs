//! The states of a job, as every language names them.

/// The states of a job. Done and cancelled jobs leave none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    /// Waits for its due time.
    Delayed,
    /// May be reserved now.
    Ready,
    /// A worker has it, until its lease ends.
    Reserved,
    /// Without retries left, or not decodable; kept for inspection.
    Failed,
}

impl State {
    /// `delayed`, `ready`, `reserved` or `failed`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Delayed => "delayed",
            Self::Ready => "ready",
            Self::Reserved => "reserved",
            Self::Failed => "failed",
        }
    }
}
