//! Settings for a second library of the same release in this process, which has an engine of its own: PHP's `duly_console`.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::ClientBuilder;
use crate::connection::Secret;
use crate::script::Clock;
use crate::value::error::{Error, ErrorKind};

/// All that says how a server is reached, and whose queues there are meant. Not the deadline, nor what only a push needs.
#[derive(Serialize, Deserialize)]
struct HandedOver {
    version: String,
    url: Option<String>,
    username: Option<String>,
    password: Option<String>,
    ca_file: Option<PathBuf>,
    client_cert_file: Option<PathBuf>,
    client_key_file: Option<PathBuf>,
    connect_timeout: Duration,
    command_timeout: Duration,
    allow_eviction: bool,
    prefix: String,
    server_hint: Option<PathBuf>,
    is_manual_clock: bool,
    max_data_bytes: usize,
}

impl ClientBuilder {
    /// These settings as a text, for [`ClientBuilder::of_handed_over`]. It has the password.
    ///
    /// Errors: `InvalidArgument` if the path of a file is not UTF-8.
    #[doc(hidden)] // for PHP
    pub fn hand_over(&self) -> Result<String, Error> {
        let settings = &self.settings;
        let revealed = |secret: &Option<Secret>| secret.as_ref().map(|secret| secret.reveal().to_owned());
        let handed_over = HandedOver {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            url: revealed(&self.url),
            username: settings.username.clone(),
            password: revealed(&settings.password),
            ca_file: settings.ca_file.clone(),
            client_cert_file: settings.client_cert_file.clone(),
            client_key_file: settings.client_key_file.clone(),
            connect_timeout: settings.connect_timeout,
            command_timeout: settings.command_timeout,
            allow_eviction: settings.allow_eviction,
            prefix: self.prefix.clone(),
            server_hint: self.server_hint.clone(),
            is_manual_clock: self.clock == Clock::Manual,
            max_data_bytes: self.max_data_bytes,
        };
        serde_json::to_string(&handed_over).map_err(|_| Error::invalid("the path of a certificate must be UTF-8"))
    }

    /// The settings that another library has handed over.
    ///
    /// Errors: `Unsupported` if that is of another version.
    #[doc(hidden)] // for PHP
    pub fn of_handed_over(text: &str) -> Result<Self, Error> {
        let own = env!("CARGO_PKG_VERSION");
        let of = |version: Option<&str>| {
            let version = version.unwrap_or("another version");
            Error::new(
                ErrorKind::Unsupported,
                format!("one part of duly is {own} and the other {version}: install both of one version"),
            )
        };
        let version = serde_json::from_str::<serde_json::Value>(text).map_err(|_| of(None))?;
        let version = version["version"].as_str();
        if version != Some(own) {
            return Err(of(version));
        }
        let given: HandedOver = serde_json::from_str(text).map_err(|_| of(None))?;
        let mut builder = Self::new();
        builder.url = given.url.map(Secret::new);
        builder.prefix = given.prefix;
        builder.server_hint = given.server_hint;
        builder.clock = if given.is_manual_clock { Clock::Manual } else { Clock::Server };
        builder.max_data_bytes = given.max_data_bytes;
        let settings = &mut builder.settings;
        settings.username = given.username;
        settings.password = given.password.map(Secret::new);
        settings.ca_file = given.ca_file;
        settings.client_cert_file = given.client_cert_file;
        settings.client_key_file = given.client_key_file;
        settings.connect_timeout = given.connect_timeout;
        settings.command_timeout = given.command_timeout;
        settings.allow_eviction = given.allow_eviction;
        Ok(builder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_come_over_as_they_are_and_only_to_the_same_version() {
        let builder = ClientBuilder::new()
            .url("rediss://me:secret@example.com/2")
            .username("other")
            .password("word")
            .ca_file("/ca.pem")
            .client_certificate("/cert.pem", "/key.pem")
            .connect_timeout(Duration::from_millis(1500))
            .command_timeout(Duration::from_secs(7))
            .allow_eviction(true)
            .prefix("shop:")
            .server_program("/bin/server")
            .manual_clock()
            .max_data_bytes(77);
        let text = builder.hand_over().unwrap();
        let over = ClientBuilder::of_handed_over(&text).unwrap();
        assert_eq!(over.hand_over().unwrap(), text);
        let plain = ClientBuilder::new().hand_over().unwrap();
        assert_eq!(ClientBuilder::of_handed_over(&plain).unwrap().hand_over().unwrap(), plain);
        let (own, older) = (env!("CARGO_PKG_VERSION"), "0.0.9");
        for other in [&*text.replace(own, older), "{}", "no JSON"] {
            let error = ClientBuilder::of_handed_over(other).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }
}
