//! A password that no message, log or debug print can show.

use std::fmt;

/// A password. Its `Debug` prints three stars; there is no `Display`.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret(String);

impl Secret {
    pub(crate) fn new(password: impl Into<String>) -> Self {
        Self(password.into())
    }

    /// The password itself, only to be sent to the server.
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// Who we are on a server: nobody (no password), the default user (a password alone), or a named user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Credentials {
    pub(crate) username: Option<String>,
    pub(crate) password: Option<Secret>,
}
