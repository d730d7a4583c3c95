//! The folder of an embedded server: which one it is, whether it may be used, and what lies in it.

use std::fs;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::{failed, refused};
use crate::value::error::Error;

/// `sun_path` holds 108 bytes on Linux (104 elsewhere) with the closing NUL.
const LONGEST_SOCKET_PATH: usize = if cfg!(target_os = "linux") { 107 } else { 103 };
/// A longer log is emptied at the next start.
const LONGEST_LOG: u64 = 1 << 20;
/// How much of the log goes into an error.
const LOG_LINES_IN_ERROR: usize = 8;

/// A folder that exists, is ours, and that nobody else can write to.
#[derive(Debug, Clone)]
pub(super) struct Folder(PathBuf);

impl Folder {
    /// Makes the folder if it is missing (mode 0700) and refuses one that another user owns or can change.
    pub(super) fn open(wanted: Option<&Path>) -> Result<Self, Error> {
        if let Some(wanted) = wanted {
            return make(wanted).map_err(|e| cannot_use(wanted, e)).and_then(checked).and_then(Self::empty_or_ours);
        }
        let home = default_in_home(std::env::var_os("XDG_STATE_HOME").map(PathBuf::from), std::env::home_dir());
        Self::by_default(home.as_deref(), &std::env::temp_dir())
    }

    /// The default folder. Nobody has named it: whoever else can write beside it, as everybody in the temporary folder, must not
    /// lead us to another one by a link.
    fn by_default(in_home: Option<&Path>, temporary: &Path) -> Result<Self, Error> {
        // php-fpm's user often has a home it cannot write to: only then the temporary folder.
        if let Some(home) = in_home
            && (home.is_symlink() || make(home).is_ok_and(|made| is_writable(&made)))
        {
            return no_link(home).and_then(checked);
        }
        let temp = temporary.join(format!("duly-{}", user_id()));
        if !temp.is_symlink() {
            make(&temp).map_err(|e| cannot_use(&temp, e))?;
        }
        no_link(&temp).and_then(checked)
    }

    /// A folder that was named by mistake (`embedded:/etc`) must not be strewn with files.
    fn empty_or_ours(self) -> Result<Self, Error> {
        // Looked into first: another process may begin to use it meanwhile, and makes a lock file before all others.
        let is_empty = fs::read_dir(&self.0).map_err(|e| cannot_use(&self.0, e))?.next().is_none();
        if is_empty || [self.start_lock(), self.users_lock(), self.server_lock()].iter().any(|lock| lock.exists()) {
            return Ok(self);
        }
        let name = self.0.display();
        Err(refused(format!(
            "{name} has files that duly did not write: name an empty folder or a new one, such as \
             embedded:{name}/duly (if they are a copy of duly's own, make an empty file server.lock beside them)"
        )))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    pub(super) fn start_lock(&self) -> PathBuf {
        self.0.join("start.lock")
    }

    pub(super) fn users_lock(&self) -> PathBuf {
        self.0.join("users.lock")
    }

    pub(super) fn server_lock(&self) -> PathBuf {
        self.0.join("server.lock")
    }

    pub(super) fn pid_file(&self) -> PathBuf {
        self.0.join("server.pid")
    }

    pub(super) fn log(&self) -> PathBuf {
        self.0.join("server.log")
    }

    /// Where the server listens: in the folder, or where `socket.path` says when that would be too long.
    pub(super) fn socket_path(&self) -> PathBuf {
        let inside = self.0.join("server.sock");
        if inside.as_os_str().len() <= LONGEST_SOCKET_PATH {
            return inside;
        }
        fs::read(self.elsewhere()).map_or(inside, |bytes| PathBuf::from(std::ffi::OsString::from_vec(bytes)))
    }

    /// Like `socket_path`, for a server about to start: makes a short private folder where one is needed.
    pub(super) fn new_socket_path(&self) -> Result<PathBuf, Error> {
        let path = self.socket_path();
        let short = path.as_os_str().len() <= LONGEST_SOCKET_PATH;
        // A folder that we made earlier may be gone after a reboot, or made again by somebody else.
        if short && path.parent().is_some_and(|parent| checked(parent.to_owned()).is_ok()) {
            return Ok(path);
        }
        let path = private_temporary_folder()
            .map_err(|e| failed("could not make a short folder for the socket; set TMPDIR to a short path", e))?
            .join("server.sock");
        if path.as_os_str().len() > LONGEST_SOCKET_PATH {
            return Err(refused("the paths of the folder and of TMPDIR are too long for a socket; use shorter ones"));
        }
        let elsewhere = self.elsewhere();
        fs::write(&elsewhere, path.as_os_str().as_bytes())
            .map_err(|e| failed(format!("could not write {}", elsewhere.display()), e))?;
        Ok(path)
    }

    fn elsewhere(&self) -> PathBuf {
        self.0.join("socket.path")
    }

    pub(super) fn log_length(&self) -> u64 {
        fs::metadata(self.log()).map_or(0, |log| log.len())
    }

    /// The log to write to at a start; what earlier starts said is kept up to a size.
    pub(super) fn open_log(&self) -> io::Result<fs::File> {
        let log = fs::OpenOptions::new().append(true).create(true).mode(0o600).open(self.log())?;
        if log.metadata()?.len() > LONGEST_LOG {
            log.set_len(0)?;
        }
        Ok(log)
    }

    /// The last lines that were written behind this length.
    pub(super) fn log_end(&self, from: u64) -> String {
        let mut said = Vec::new();
        let from = if self.log_length() < from { 0 } else { from }; // it may have been emptied at the start
        if let Ok(mut log) = fs::File::open(self.log()) {
            let _ = log.seek(SeekFrom::Start(from)).and_then(|_| log.take(LONGEST_LOG).read_to_end(&mut said));
        }
        let said = String::from_utf8_lossy(&said);
        let lines: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        lines[lines.len().saturating_sub(LOG_LINES_IN_ERROR)..].join(" | ")
    }
}

/// The XDG rules: a relative `XDG_STATE_HOME` is ignored.
fn default_in_home(state: Option<PathBuf>, home: Option<PathBuf>) -> Option<PathBuf> {
    let absolute = |path: &PathBuf| path.is_absolute();
    let state = state.filter(absolute).or_else(|| home.filter(absolute).map(|home| home.join(".local/state")));
    state.map(|state| state.join("duly"))
}

fn make(folder: &Path) -> io::Result<PathBuf> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    folder.canonicalize()
}

/// The folder's real path, if its last part is a folder of ours and no link to one. A link that is changed into a folder behind
/// this look would not be ours.
fn no_link(folder: &Path) -> Result<PathBuf, Error> {
    let found = fs::symlink_metadata(folder).map_err(|e| cannot_use(folder, e))?;
    let name = folder.display();
    if found.is_symlink() {
        return Err(refused(format!(
            "{name} is a symbolic link, which a default folder must not be: remove it, or name a folder: embedded:/a/folder"
        )));
    }
    if found.uid() != user_id() {
        return Err(not_ours(folder, found.uid()));
    }
    let real = match (folder.parent(), folder.file_name()) {
        (Some(parent), Some(last)) => parent.canonicalize().map(|parent| parent.join(last)),
        _ => folder.canonicalize(),
    };
    real.map_err(|e| cannot_use(folder, e))
}

fn not_ours(folder: &Path, owner: u32) -> Error {
    refused(format!("{} belongs to user {owner}; name a folder of your own: embedded:/a/folder", folder.display()))
}

fn checked(folder: PathBuf) -> Result<Folder, Error> {
    let found = fs::metadata(&folder).map_err(|e| cannot_use(&folder, e))?;
    let name = folder.display();
    if found.uid() != user_id() {
        return Err(not_ours(&folder, found.uid()));
    }
    if found.mode() & 0o022 != 0 {
        return Err(refused(format!("others may write to {name}; close it with: chmod go-w {name}")));
    }
    if !is_writable(&folder) {
        return Err(refused(format!("{name} is not writable; name another folder: embedded:/a/folder")));
    }
    Ok(Folder(folder))
}

fn cannot_use(folder: &Path, cause: io::Error) -> Error {
    failed(
        format!("cannot use the folder {}; name one that you may write to: embedded:/a/folder", folder.display()),
        cause,
    )
}

fn user_id() -> u32 {
    // SAFETY: no arguments, no failure.
    unsafe { libc::geteuid() }
}

fn is_writable(folder: &Path) -> bool {
    let Ok(path) = std::ffi::CString::new(folder.as_os_str().as_bytes()) else { return false };
    // SAFETY: the path is a NUL-terminated string that outlives the call. AT_EACCESS: what our effective user may do.
    unsafe { libc::faccessat(libc::AT_FDCWD, path.as_ptr(), libc::W_OK | libc::X_OK, libc::AT_EACCESS) == 0 }
}

pub(super) fn private_temporary_folder() -> io::Result<PathBuf> {
    let mut template = std::env::temp_dir().join("duly-XXXXXX").into_os_string().into_vec();
    template.push(0);
    // SAFETY: a NUL-terminated buffer of our own that mkdtemp fills in place (mode 0700, a name that did not exist).
    if unsafe { libc::mkdtemp(template.as_mut_ptr().cast()) }.is_null() {
        return Err(io::Error::last_os_error());
    }
    template.pop();
    Ok(PathBuf::from(std::ffi::OsString::from_vec(template)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_folder_follows_the_xdg_rules() {
        let path = |text: &str| Some(PathBuf::from(text));
        assert_eq!(default_in_home(path("/state"), path("/home/ann")), path("/state/duly"));
        assert_eq!(default_in_home(path("state"), path("/home/ann")), path("/home/ann/.local/state/duly"));
        assert_eq!(default_in_home(None, path("/home/ann")), path("/home/ann/.local/state/duly"));
        assert_eq!(default_in_home(None, None), None);
    }

    #[test]
    fn a_default_folder_is_ours_and_no_link() {
        let scratch = tempfile::tempdir().unwrap();
        let temporary = scratch.path().canonicalize().unwrap();
        let in_temporary = temporary.join(format!("duly-{}", user_id()));
        assert_eq!(Folder::by_default(None, &temporary).unwrap().path(), in_temporary);
        assert_eq!(Folder::by_default(None, &temporary).unwrap().path(), in_temporary, "made before");

        // A home without a folder that can be made: the temporary one.
        fs::write(temporary.join("file"), "").unwrap();
        let no_home = temporary.join("file/state/duly");
        assert_eq!(Folder::by_default(Some(&no_home), &temporary).unwrap().path(), in_temporary);
        let home = temporary.join("state/duly");
        assert_eq!(Folder::by_default(Some(&home), &temporary).unwrap().path(), home);

        // Links to folders that are ours, to nothing, and from the home.
        fs::remove_dir(&in_temporary).unwrap();
        for target in [home.clone(), temporary.join("nothing")] {
            std::os::unix::fs::symlink(target, &in_temporary).unwrap();
            for in_home in [None, Some(&*in_temporary)] {
                let error = Folder::by_default(in_home, &temporary).unwrap_err();
                assert!(error.to_string().contains("is a symbolic link"), "{error}");
            }
            fs::remove_file(&in_temporary).unwrap();
        }
        assert!(!temporary.join("nothing").exists(), "a link leads to nothing that is made");
        assert_eq!(fs::read_dir(&home).unwrap().count(), 0);
    }

    #[test]
    fn a_default_folder_of_somebody_else_is_refused() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path().join(format!("duly-{}", user_id()));
        // Nobody may give a folder away but root; everybody else finds one of root's.
        let somebody_elses = if user_id() == 0 {
            fs::create_dir(&folder).unwrap();
            std::os::unix::fs::chown(&folder, Some(65534), None).unwrap();
            folder
        } else {
            PathBuf::from("/usr")
        };
        let error = no_link(&somebody_elses).unwrap_err();
        assert!(error.to_string().contains("belongs to user"), "{error}");
        if user_id() == 0 {
            let error = Folder::by_default(None, scratch.path()).unwrap_err();
            assert!(error.to_string().contains("belongs to user 65534"), "{error}");
        }
    }
}
