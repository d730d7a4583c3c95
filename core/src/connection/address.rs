//! Where one server listens.

use std::fmt;
use std::path::PathBuf;

/// Where one server listens: a host and a port, or a unix socket.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Address {
    /// The host has no brackets, also when it is an IPv6 address.
    Tcp {
        host: String,
        port: u16,
    },
    Unix(PathBuf),
}

impl Address {
    /// Reads `host:port` as MOVED, ASK and the sentinels write it (IPv6 without brackets, so the last colon counts).
    /// An empty host means "the one that said so".
    pub(super) fn from_redirect(text: &str, said_by: &Address) -> Option<Self> {
        let (host, port) = text.rsplit_once(':')?;
        let port = port.split('@').next()?.parse().ok()?;
        Self::from_parts(host, port, said_by)
    }

    pub(super) fn from_parts(host: &str, port: u16, said_by: &Address) -> Option<Self> {
        let host = host.trim_start_matches('[').trim_end_matches(']');
        match host {
            "" | "?" => match said_by {
                Self::Tcp { host, .. } => Some(Self::Tcp { host: host.clone(), port }),
                Self::Unix(_) => None,
            },
            host => Some(Self::Tcp { host: host.to_owned(), port }),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "{host}:{port}"),
            Self::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}
