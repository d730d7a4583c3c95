//! The embedded server: a private Redis or Valkey for first steps, demos and tests, asked for with the URL `embedded:`.
//!
//! One folder holds one server: its socket, its append-only file, its log and three lock files. The kernel drops a
//! lock when its holder dies, however it dies, so nothing here trusts a pid file or a socket that was left behind.
//!
//! | file | held | by whom |
//! |---|---|---|
//! | `start.lock` | exclusively | who attaches, so that two never start a server each |
//! | `users.lock` | shared | every process that is attached, until it leaves or dies |
//! | | exclusively | the guardian, while it ends the server: who attaches meanwhile waits |
//! | `server.lock` | exclusively | the server itself (inherited through exec), and its rewrite children |
//!
//! A process that finds no server starts one under a guardian process, which waits for the last user to leave and then ends it.
//! A forked child inherits its parent's lock of `users.lock` and keeps the server running until it ends as well.

mod folder;
mod guardian;
mod lock;
mod server;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::value::error::{Error, ErrorKind};
use folder::Folder;
use lock::{FileLock, Mode};

/// How long to wait for another process that is starting the server of this folder, or ending it. Longer than a guardian
/// gives a server to end (see `guardian::SERVER_END_S`).
const PATIENCE: Duration = Duration::from_secs(60);

/// One of the users of an embedded server. The server runs at least as long as this value lives.
#[derive(Debug)]
pub(crate) struct Attached {
    folder: Folder,
    hint: Option<PathBuf>,
    socket: PathBuf,
    /// Shared lock on `users.lock`. It is given up by closing, never by unlocking: a forked child has the same lock,
    /// and unlocking would take it from both.
    _user: File,
}

/// Joins the users of the server in this folder, and starts it if it does not run.
///
/// Without a folder it is `$XDG_STATE_HOME/duly`, else `~/.local/state/duly`, else `duly-<user id>` in the temporary
/// folder. The server is the one that `DULY_SERVER` names, else what the machine has, else `hint`: the one that a
/// language's package brings. Gives `Embedded` when there is no server, when it does not start (with the end of its
/// log), or when the folder cannot be used: not ours alone, not writable, or full of somebody else's files.
pub(crate) async fn attach(folder: Option<&Path>, hint: Option<&Path>) -> Result<Attached, Error> {
    let (folder, hint) = (folder.map(Path::to_owned), hint.map(Path::to_owned));
    in_background(move || {
        let folder = Folder::open(folder.as_deref())?;
        let starting = lock::wait(&folder.start_lock(), Mode::Exclusive, PATIENCE)?;
        let user = lock::wait(&folder.users_lock(), Mode::Shared, PATIENCE)?.keep();
        let socket = ensure_running(&folder, hint.as_deref(), &starting)?;
        Ok(Attached { folder, hint, socket, _user: user })
    })
    .await
}

impl Attached {
    /// The unix socket on which the server answers.
    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    /// Starts the server again if it has died (killed, out of memory), and says where it answers now.
    ///
    /// The client calls it again and again while a call has no answer. It costs a PING when the server is well.
    pub(crate) async fn revive(&self) -> Result<PathBuf, Error> {
        let (folder, hint) = (self.folder.clone(), self.hint.clone());
        in_background(move || {
            let starting = lock::wait(&folder.start_lock(), Mode::Exclusive, PATIENCE)?;
            ensure_running(&folder, hint.as_deref(), &starting)
        })
        .await
    }
}

/// The proof that `start.lock` is held is an argument, so that no caller forgets it.
fn ensure_running(folder: &Folder, hint: Option<&Path>, _starting: &FileLock) -> Result<PathBuf, Error> {
    // Somebody holds server.lock: a server that runs or starts, or the last child of one that was killed.
    let taken = !lock::is_free(&folder.server_lock())?;
    if taken && server::wait_until_ready(folder)? {
        return Ok(folder.socket_path());
    }
    let program = server::find(hint)?;
    server::refuse_downgrade(&program, folder)?;
    let socket = folder.new_socket_path()?;
    let log_from = folder.log_length();
    guardian::start(server::command(&program, folder, &socket)?, folder)
        .map_err(|e| failed(format!("could not start {}", program.display()), e))?;
    if server::wait_until_ready(folder)? {
        return Ok(socket);
    }
    Err(refused(format!("{} ended while starting; its log: {}", program.display(), folder.log_end(log_from))))
}

async fn in_background<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    let result = tokio::task::spawn_blocking(work).await;
    result.unwrap_or_else(|e| {
        Err(Error::new(ErrorKind::Internal, "the start of the embedded server panicked").caused_by(e))
    })
}

fn refused(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Embedded, format!("embedded server: {}", message.into()))
}

fn failed(message: impl Into<String>, cause: std::io::Error) -> Error {
    refused(message).caused_by(cause)
}
