//! How sure a push must be before it is answered.

use std::time::Duration;

/// How sure a push must be before it is answered. Each step costs time on every push.
///
/// Neither is consensus: a replica that confirmed may still not be the one that a failover picks.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// The server has it in memory; its own persistence settings decide when it is on a disk.
    #[default]
    None,
    /// At least `count` replicas have it too (`WAIT`), or
    /// [`NotDurable`](crate::ErrorKind::NotDurable) after `timeout`. The job is in all the same.
    Replicas {
        /// How many replicas must confirm.
        count: u32,
        /// How long to wait for them.
        timeout: Duration,
    },
    /// The server's append-only file has it on disk (`WAITAOF`, Redis or Valkey 7.2 and later), or
    /// [`NotDurable`](crate::ErrorKind::NotDurable) after `timeout`. Older servers, and servers without an
    /// append-only file, are refused with [`Unsupported`](crate::ErrorKind::Unsupported) before anything is pushed.
    Fsync {
        /// How long to wait for the disk.
        timeout: Duration,
    },
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
        cmd.arg(u64::try_from(self.timeout().as_millis()).unwrap_or(u64::MAX).clamp(1, 1 << 40));
        Some(cmd)
    }

    pub(super) fn timeout(self) -> Duration {
        match self {
            Self::None => Duration::ZERO,
            Self::Replicas { timeout, .. } | Self::Fsync { timeout } => timeout,
        }
    }
}
