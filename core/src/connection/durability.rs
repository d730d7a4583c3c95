//! The confirmations that a push waits for behind its call, and for how long.

use std::time::Duration;

use crate::value::time::whole_ms;

/// What [`crate::Durability`] asks of the server, with the time that it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Durability {
    /// Nothing.
    #[default]
    None,
    /// `WAIT`: so many replicas.
    Replicas { count: u32, timeout: Duration },
    /// `WAITAOF`: the server's disk.
    Fsync { timeout: Duration },
}

impl Durability {
    /// The command that waits, or nothing to wait for.
    pub(super) fn wait_command(self) -> Option<redis::Cmd> {
        let mut cmd = match self {
            Self::None => return None,
            Self::Replicas { count, .. } => {
                let mut cmd = redis::cmd("WAIT");
                cmd.arg(count);
                cmd
            }
            Self::Fsync { .. } => {
                let mut cmd = redis::cmd("WAITAOF");
                cmd.arg(1).arg(0);
                cmd
            }
        };
        // Zero would mean "for ever" to the server.
        cmd.arg(whole_ms(self.timeout()).clamp(1, 1 << 40));
        Some(cmd)
    }

    pub(super) fn timeout(self) -> Duration {
        match self {
            Self::None => Duration::ZERO,
            Self::Replicas { timeout, .. } | Self::Fsync { timeout } => timeout,
        }
    }
}
