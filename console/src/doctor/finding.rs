//! What a check came to.

use serde::Serialize;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Level {
    Ok,
    /// Good to know, or it could not be checked.
    Note,
    /// Jobs are late, or will be lost or refused if something else happens.
    Warning,
    /// Jobs are lost or refused now, or with the next restart.
    Problem,
}

impl Level {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Problem => "problem",
        }
    }
}

/// What a check came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    pub(crate) level: Level,
    /// The name of the check.
    pub(crate) check: &'static str,
    /// Which server or queue, where there are several.
    pub(crate) about: Option<String>,
    /// What is so, and what that means.
    pub(crate) what: String,
    /// What to do; empty if nothing is.
    #[serde(rename = "do")]
    pub(crate) advice: String,
}

impl Finding {
    pub(crate) fn new(level: Level, check: &'static str, what: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { level, check, about: None, what: what.into(), advice: advice.into() }
    }

    pub(crate) fn ok(check: &'static str, what: impl Into<String>) -> Self {
        Self::new(Level::Ok, check, what, "")
    }

    pub(crate) fn about(self, what: &str) -> Self {
        Self { about: Some(what.to_owned()), ..self }
    }
}
