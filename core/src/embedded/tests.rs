//! Real processes, a real server, real kills. The users are this test program, run again as `a_user`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::*;

const PATIENT: Duration = Duration::from_secs(20);

/// A folder of one test. At its end the server has to end by itself: nobody is attached any more.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        Self(folder::private_temporary_folder().unwrap())
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.file(name)).unwrap()
    }

    /// The server's own number. Only after `attach`: the file is not trusted by anything else.
    fn server_pid(&self) -> i32 {
        self.read("server.pid").trim().parse().unwrap()
    }

    fn starts(&self) -> usize {
        self.read("server.log").to_lowercase().matches("ready to accept connections").count()
    }

    fn wait_until_server_ended(&self) {
        lock::wait(&self.file("server.lock"), Mode::Shared, PATIENT)
            .expect("the server ends when the last user leaves");
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.wait_until_server_ended();
        }
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// One attached process. Dropped, it leaves by ending; `kill` is `kill -9`.
struct User {
    process: Child,
    said: String,
}

impl User {
    fn start(folder: &Path, environment: &[(&str, &str)]) -> Child {
        let mut user = Command::new(std::env::current_exe().unwrap());
        user.args(["--exact", "embedded::tests::a_user", "--ignored", "--nocapture"]);
        user.env("DULY_TEST_FOLDER", folder).envs(environment.iter().copied());
        user.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
    }

    fn started(mut process: Child) -> Self {
        let lines = BufReader::new(process.stdout.take().unwrap()).lines().map(Result::unwrap);
        let line = lines.into_iter().find(|line| line.contains("user: ")).expect("the user says how it went");
        let said = line.split("user: ").nth(1).unwrap().to_owned();
        Self { process, said }
    }

    fn new(folder: &Path, environment: &[(&str, &str)]) -> Self {
        Self::started(Self::start(folder, environment))
    }

    fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for User {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
}

#[tokio::test]
#[ignore = "a process that the tests below start"]
async fn a_user() {
    let folder = PathBuf::from(std::env::var_os("DULY_TEST_FOLDER").expect("started by another test"));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    // SAFETY: clears close-on-exec of a file that lives to the end of this function, as php-fpm has it.
    unsafe { libc::fcntl(listener.as_raw_fd(), libc::F_SETFD, 0) };
    match attach(Some(&folder), None).await {
        Ok(_attached) => {
            let mut forked = 0;
            if std::env::var_os("DULY_TEST_FORK").is_some() {
                // SAFETY: the child makes system calls only, and never returns.
                forked = unsafe { libc::fork() };
                if forked == 0 {
                    loop {
                        // SAFETY: as above.
                        unsafe { libc::pause() };
                    }
                }
            }
            println!("user: attached {} {forked}", listener.local_addr().unwrap());
            std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
        }
        Err(e) => println!("user: {:?} {e}", e.kind()),
    }
}

/// The last line of the reply.
fn ask(socket: &Path, command: &str) -> String {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.write_all(format!("{command}\r\nQUIT\r\n").as_bytes()).unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    let reply = reply.strip_suffix("\r\n+OK\r\n").expect("the reply, then that of QUIT");
    reply.rsplit("\r\n").next().unwrap().to_owned()
}

fn kill(pid: i32) {
    signal(pid, libc::SIGKILL);
}

fn signal(pid: i32, signal: i32) {
    // SAFETY: a system call on the number of a process that this test has started and not yet ended.
    assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
}

fn until(condition: impl Fn() -> bool) {
    let deadline = std::time::Instant::now() + PATIENT;
    while !condition() {
        assert!(std::time::Instant::now() < deadline, "it did not become true in time");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[tokio::test]
async fn users_share_one_server_and_the_last_to_leave_ends_it() {
    let scratch = Scratch::new();
    let first = attach(Some(&scratch.0), None).await.unwrap();
    let second = User::new(&scratch.0, &[]);
    assert!(second.said.starts_with("attached"), "{}", second.said);
    assert_eq!(ask(first.socket(), "SET job 1"), "+OK");
    drop(first);
    let third = attach(Some(&scratch.0), None).await.unwrap();
    assert_eq!(ask(third.socket(), "GET job"), "1");
    assert_eq!(scratch.starts(), 1);
    drop((second, third));
    scratch.wait_until_server_ended();

    let later = attach(Some(&scratch.0), None).await.unwrap();
    assert_eq!(ask(later.socket(), "GET job"), "1", "data is kept");
    assert_eq!(scratch.starts(), 2);
}

#[tokio::test]
async fn a_killed_user_does_not_take_the_server_from_the_others() {
    let scratch = Scratch::new();
    let starter = User::new(&scratch.0, &[]);
    let other = attach(Some(&scratch.0), None).await.unwrap();
    let server = scratch.server_pid();
    starter.kill();
    assert_eq!(ask(other.socket(), "PING"), "+PONG");
    let next = attach(Some(&scratch.0), None).await.unwrap();
    assert_eq!(ask(next.socket(), "PING"), "+PONG");
    assert_eq!((scratch.server_pid(), scratch.starts()), (server, 1));
}

#[tokio::test]
async fn the_server_ends_and_keeps_its_data_when_the_last_user_is_killed() {
    let scratch = Scratch::new();
    let user = User::new(&scratch.0, &[]);
    assert_eq!(ask(&scratch.file("server.sock"), "SET job 1"), "+OK");
    user.kill();
    scratch.wait_until_server_ended();
    let later = attach(Some(&scratch.0), None).await.unwrap();
    assert_eq!(ask(later.socket(), "GET job"), "1");
}

#[tokio::test]
async fn a_forked_child_keeps_the_server_until_it_ends_too() {
    let scratch = Scratch::new();
    let parent = User::new(&scratch.0, &[("DULY_TEST_FORK", "1")]);
    let child: i32 = parent.said.split(' ').nth(2).unwrap().parse().unwrap();
    parent.kill();
    let next = attach(Some(&scratch.0), None).await.unwrap();
    drop(next);
    assert_eq!(ask(&scratch.file("server.sock"), "PING"), "+PONG");
    assert_eq!(scratch.starts(), 1);
    kill(child);
    scratch.wait_until_server_ended();
}

#[test]
fn processes_that_start_at_once_get_one_server() {
    let scratch = Scratch::new();
    let starting: Vec<Child> = (0..8).map(|_| User::start(&scratch.0, &[])).collect();
    let users: Vec<User> = starting.into_iter().map(User::started).collect();
    assert!(users.iter().all(|user| user.said.starts_with("attached")));
    assert_eq!(scratch.starts(), 1);
}

#[test]
fn processes_that_come_and_go_always_find_a_server() {
    let scratch = Scratch::new();
    std::thread::scope(|threads| {
        for killed in [true, false, true, false] {
            let folder = &scratch.0;
            threads.spawn(move || {
                for _ in 0..6 {
                    let user = User::new(folder, &[]);
                    assert!(user.said.starts_with("attached"), "{}", user.said);
                    assert_eq!(ask(&folder.join("server.sock"), "PING"), "+PONG");
                    if killed {
                        user.kill();
                    }
                }
            });
        }
    });
}

#[tokio::test]
async fn who_comes_while_the_server_is_ending_gets_the_next_one() {
    let scratch = Scratch::new();
    let last = attach(Some(&scratch.0), None).await.unwrap();
    assert_eq!(ask(last.socket(), "SET job 1"), "+OK");
    let server = scratch.server_pid();
    signal(server, libc::SIGSTOP); // it cannot end before we let it
    drop(last);
    until(|| lock::wait(&scratch.file("users.lock"), Mode::Shared, Duration::ZERO).is_err());
    let next = User::start(&scratch.0, &[]);
    until(|| !lock::is_free(&scratch.file("start.lock")).unwrap());
    signal(server, libc::SIGCONT);
    let next = User::started(next);
    assert!(next.said.starts_with("attached"), "{}", next.said);
    assert_ne!(scratch.server_pid(), server);
    assert_eq!(ask(&scratch.file("server.sock"), "GET job"), "1");
}

#[tokio::test]
async fn what_a_power_loss_left_behind_is_no_obstacle() {
    let scratch = Scratch::new();
    drop(UnixListener::bind(scratch.file("server.sock")).unwrap());
    std::fs::write(scratch.file("server.pid"), "1").unwrap();
    std::fs::write(scratch.file("server.lock"), "").unwrap();
    let attached = attach(Some(&scratch.0), None).await.unwrap();
    assert_eq!(ask(attached.socket(), "PING"), "+PONG");
    assert_ne!(scratch.server_pid(), 1);
}

#[tokio::test]
async fn a_server_that_was_killed_is_revived_with_its_data() {
    let scratch = Scratch::new();
    let attached = attach(Some(&scratch.0), None).await.unwrap();
    let other = attach(Some(&scratch.0), None).await.unwrap();
    assert_eq!(ask(attached.socket(), "SET job 1"), "+OK");
    kill(scratch.server_pid());
    scratch.wait_until_server_ended();
    assert_eq!(attached.revive().await.unwrap(), attached.socket());
    assert_eq!(other.revive().await.unwrap(), attached.socket());
    assert_eq!(ask(attached.socket(), "GET job"), "1");
    assert_eq!(scratch.starts(), 2, "reviving a server that is well starts none");
}

#[tokio::test]
#[cfg(target_os = "linux")]
async fn a_server_without_its_guardian_ends_and_is_revived() {
    let scratch = Scratch::new();
    let attached = attach(Some(&scratch.0), None).await.unwrap();
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", scratch.server_pid())).unwrap();
    let guardian: i32 = stat.rsplit(") ").next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let name = std::fs::read_to_string(format!("/proc/{guardian}/comm")).unwrap();
    assert_eq!(name.trim(), "duly-guardian");
    kill(guardian);
    scratch.wait_until_server_ended();
    attached.revive().await.unwrap();
    assert_eq!(ask(attached.socket(), "PING"), "+PONG");
}

#[tokio::test]
async fn the_server_keeps_nothing_of_the_host() {
    let scratch = Scratch::new();
    let host = User::new(&scratch.0, &[]);
    let attached = attach(Some(&scratch.0), None).await.unwrap();
    let address = host.said.split(' ').nth(1).unwrap().to_owned();
    // SAFETY: system calls on integers.
    let (server, ours) = unsafe { (libc::getsid(scratch.server_pid()), libc::getsid(0)) };
    assert_ne!(server, ours, "a Ctrl-C in our terminal would reach it");
    host.kill();
    TcpListener::bind(address).expect("the host's listening socket died with it");
    assert_eq!(ask(attached.socket(), "PING"), "+PONG");
}

/// A worker's engine attaches from a thread that blocks all signals, and a mask goes through fork and exec.
#[test]
fn a_server_ends_also_when_the_thread_that_started_it_blocks_all_signals() {
    let scratch = Scratch::new();
    let folder = scratch.0.clone();
    let starter = std::thread::spawn(move || {
        // SAFETY: fills a mask of our own and sets it for this thread, which ends with the test.
        unsafe {
            let mut all: libc::sigset_t = std::mem::zeroed();
            libc::sigfillset(&raw mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, std::ptr::null_mut());
        }
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(attach(Some(&folder), None)).unwrap()
    });
    drop(starter.join().unwrap());
    scratch.wait_until_server_ended();
}

#[tokio::test]
async fn only_its_user_can_reach_it_and_the_settings_keep_jobs() {
    let scratch = Scratch::new();
    let folder = scratch.file("made/by/duly");
    let attached = attach(Some(&folder), None).await.unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&folder), 0o700);
    assert_eq!(mode(attached.socket()), 0o600);
    assert_eq!(mode(&folder.join("server.log")), 0o600);
    let setting = |name: &str| ask(attached.socket(), &format!("CONFIG GET {name}"));
    assert_eq!(setting("port"), "0");
    assert_eq!(setting("appendonly"), "yes");
    assert_eq!(setting("appendfsync"), "everysec");
    assert_eq!(setting("save"), "");
    assert_eq!(setting("maxmemory-policy"), "noeviction");
    drop(attached);
    lock::wait(&folder.join("server.lock"), Mode::Shared, PATIENT).unwrap();
}

#[tokio::test]
async fn a_folder_with_a_long_path_gets_its_socket_elsewhere() {
    let scratch = Scratch::new();
    let folder = scratch.file(&"long".repeat(40));
    let attached = attach(Some(&folder), None).await.unwrap();
    assert!(!attached.socket().starts_with(&folder));
    assert_eq!(ask(attached.socket(), "SET job 1"), "+OK");
    let elsewhere = attached.socket().parent().unwrap().to_owned();
    let second = attach(Some(&folder), None).await.unwrap();
    assert_eq!(second.socket(), attached.socket());
    drop((attached, second));
    lock::wait(&folder.join("server.lock"), Mode::Shared, PATIENT).unwrap();

    std::fs::remove_dir_all(&elsewhere).unwrap(); // as after a reboot
    let later = attach(Some(&folder), None).await.unwrap();
    assert_eq!(ask(later.socket(), "GET job"), "1");
    let elsewhere = later.socket().parent().unwrap().to_owned();
    drop(later);
    lock::wait(&folder.join("server.lock"), Mode::Shared, PATIENT).unwrap();
    std::fs::remove_dir_all(elsewhere).unwrap();
}

#[tokio::test]
async fn a_server_that_does_not_start_is_quoted() {
    let scratch = Scratch::new();
    std::fs::write(scratch.file("server.lock"), "").unwrap();
    std::fs::create_dir(scratch.file("appendonlydir")).unwrap();
    std::fs::write(scratch.file("appendonlydir/appendonly.aof.manifest"), "garbage\n").unwrap();
    let error = attach(Some(&scratch.0), None).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Embedded);
    assert!(error.to_string().contains("ended while starting; its log: "), "{error}");
    assert!(error.to_string().contains("AOF"), "{error}");
}

#[test]
fn a_missing_server_says_what_to_do() {
    let scratch = Scratch::new();
    let user = User::new(&scratch.0, &[("DULY_SERVER", "/nowhere/redis-server")]);
    assert!(user.said.starts_with("Embedded "), "{}", user.said);
    assert!(user.said.contains("DULY_SERVER names /nowhere/redis-server"), "{}", user.said);
}

#[test]
fn an_older_server_does_not_start_empty_on_newer_data() {
    let scratch = Scratch::new();
    std::fs::write(scratch.file("server.lock"), "").unwrap();
    std::fs::create_dir(scratch.file("appendonlydir")).unwrap();
    let old = scratch.file("redis-server");
    std::fs::write(&old, "#!/bin/sh\necho Redis server v=6.2.7 sha=0\n").unwrap();
    std::fs::set_permissions(&old, std::fs::Permissions::from_mode(0o755)).unwrap();
    let user = User::new(&scratch.0, &[("DULY_SERVER", old.to_str().unwrap())]);
    assert!(user.said.starts_with("Embedded "), "{}", user.said);
    assert!(user.said.contains("is version 6, but the data"), "{}", user.said);
}

#[tokio::test]
async fn a_folder_with_files_of_somebody_else_is_refused_and_left_alone() {
    let scratch = Scratch::new();
    std::fs::write(scratch.file("letter.txt"), "dear aunt").unwrap();
    let error = attach(Some(&scratch.0), None).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Embedded);
    let inside = format!("embedded:{}/duly", scratch.0.canonicalize().unwrap().display());
    assert!(error.to_string().contains(&inside), "{error}");
    assert_eq!(std::fs::read_dir(&scratch.0).unwrap().count(), 1);

    std::fs::write(scratch.file("server.lock"), "").unwrap();
    let attached = attach(Some(&scratch.0), None).await.expect("a folder that duly has used");
    assert_eq!(ask(attached.socket(), "PING"), "+PONG");
}

#[test]
fn a_new_folder_is_ours_also_while_somebody_else_begins_to_use_it() {
    let scratch = Scratch::new();
    for round in 0..1000 {
        let both = std::sync::Barrier::new(2);
        let begin = || {
            both.wait();
            let folder = Folder::open(Some(&scratch.file(&format!("new-{round}"))))?;
            lock::wait(&folder.start_lock(), Mode::Exclusive, PATIENT).map(drop)
        };
        std::thread::scope(|threads| {
            let other = threads.spawn(begin);
            begin().unwrap_or_else(|error| panic!("round {round}: {error}"));
            other.join().unwrap().unwrap_or_else(|error| panic!("round {round}: {error}"));
        });
    }
}

#[tokio::test]
async fn a_first_caller_that_is_not_polled_while_the_server_starts_holds_nobody_up() {
    let scratch = Scratch::new();
    let client = crate::queue::Client::builder().url(&format!("embedded:{}", scratch.0.display())).build().unwrap();
    let mut first = Box::pin(client.ping());
    // As `select!` does with the branch that is not ready.
    std::future::poll_fn(|context| {
        assert!(first.as_mut().poll(context).is_pending());
        std::task::Poll::Ready(())
    })
    .await;
    tokio::time::timeout(PATIENT, client.ping()).await.expect("nobody holds it up").unwrap();
    first.await.unwrap();
    drop(client);
}

#[tokio::test]
async fn a_folder_that_is_not_ours_alone_is_refused() {
    let scratch = Scratch::new();
    let says = async |folder: &Path| {
        let error = attach(Some(folder), None).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Embedded);
        error.to_string()
    };
    std::fs::set_permissions(&scratch.0, std::fs::Permissions::from_mode(0o777)).unwrap();
    assert!(says(&scratch.0).await.contains("others may write to"));
    std::fs::set_permissions(&scratch.0, std::fs::Permissions::from_mode(0o700)).unwrap();
    assert!(says(Path::new("/proc/duly")).await.contains("cannot use the folder"));

    let foreign = scratch.file("foreign");
    std::fs::create_dir(&foreign).unwrap();
    // Only root may give a folder away; everybody else finds one of root's.
    let foreign = if std::os::unix::fs::chown(&foreign, Some(65534), None).is_ok() { foreign } else { "/usr".into() };
    assert!(says(&foreign).await.contains("belongs to user"));
}
