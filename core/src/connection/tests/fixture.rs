//! Servers, scripts and a lossy proxy for the tests of connections.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use redis::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::connection::{Connection, Settings};
use crate::script::{ByteStrings, Call, Flags, Script};
use crate::value::error::Error;

/// A port that nobody listens on just now, below those that the kernel hands out and not given twice: a server that was killed
/// finds its own free. None of those of the integration tests, which may run beside these.
pub(super) fn free_port() -> u16 {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let first = std::process::id() as usize * 31;
    loop {
        let number = (first + NEXT.fetch_add(1, Ordering::Relaxed)) % 2_600;
        let port = 27_400 + u16::try_from(number).unwrap();
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// A port for a node of a cluster, whose bus has the port 10,000 higher (an own number for it came with 7.0). Both are below
/// those that the kernel hands out, so that nobody gets one of them in between.
pub(super) fn cluster_port() -> u16 {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let first = std::process::id() as usize * 31;
    let is_free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
    loop {
        let number = (first + NEXT.fetch_add(1, Ordering::Relaxed)) % 6_000;
        let port = 11_000 + u16::try_from(number).unwrap();
        if is_free(port) && is_free(port + 10_000) {
            return port;
        }
    }
}

pub(super) struct TestServer {
    child: Child,
    pub(super) port: u16,
    args: Vec<String>,
    pub(super) dir: Arc<tempfile::TempDir>,
}

impl Drop for TestServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl TestServer {
    pub(super) fn start(args: &[&str]) -> Self {
        Self::start_at(free_port(), args)
    }

    pub(super) fn start_at(port: u16, args: &[&str]) -> Self {
        let mut all = vec!["--port".to_owned(), port.to_string()];
        all.extend(args.iter().map(|arg| (*arg).to_owned()));
        let server = Self::start_raw(all, port);
        eventually("the server answers", || server.answers().unwrap_or(false));
        server
    }

    /// Also with an error, as where it wants a password. That somebody listens is not enough: it may be another test that looks for a port.
    fn answers(&self) -> std::io::Result<bool> {
        let mut stream = std::net::TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_read_timeout(Some(Duration::from_secs(1)))?;
        stream.write_all(b"PING\r\n")?;
        Ok(stream.read(&mut [0; 64])? > 0)
    }

    /// Does not wait until it answers.
    pub(super) fn start_raw(args: Vec<String>, port: u16) -> Self {
        let dir = Arc::new(tempfile::tempdir().unwrap());
        let child = spawn(&args, &dir);
        Self { child, port, args, dir }
    }

    pub(super) fn wait_ready(&self) {
        let socket = self.dir.path().join("s.sock");
        eventually("the server accepts connections", || {
            std::net::TcpStream::connect(("127.0.0.1", self.port)).is_ok()
                || std::os::unix::net::UnixStream::connect(&socket).is_ok()
        });
    }

    pub(super) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    pub(super) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(super) fn restart(&mut self) {
        self.child = spawn(&self.args, &self.dir);
    }

    pub(super) fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
    }

    /// The version of its commands: Valkey says `redis_version:7.2.4`, and has them all.
    pub(super) fn version(&self) -> (u32, u32) {
        let said = self.cli(&["INFO", "server"]);
        let version = said.lines().find_map(|line| line.strip_prefix("redis_version:")).unwrap();
        let mut parts = version.split('.').map(|part| part.parse().unwrap());
        (parts.next().unwrap(), parts.next().unwrap())
    }

    pub(super) fn cli(&self, args: &[&str]) -> String {
        cli(self.port, args)
    }
}

fn spawn(args: &[String], dir: &tempfile::TempDir) -> Child {
    // A sentinel must be given a configuration file that it can write.
    let mut command = Command::new(server_program());
    if args.iter().any(|arg| arg == "--sentinel") {
        command.arg(dir.path().join("sentinel.conf"));
        std::fs::OpenOptions::new().create(true).append(true).open(dir.path().join("sentinel.conf")).unwrap();
    }
    command
        .args(args)
        .args(["--dir", dir.path().to_str().unwrap(), "--logfile", "server.log", "--save", ""])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("redis-server is installed")
}

/// The server to test against: `DULY_TEST_SERVER` names another version than the machine's.
fn server_program() -> std::ffi::OsString {
    std::env::var_os("DULY_TEST_SERVER").unwrap_or_else(|| "redis-server".into())
}

pub(super) fn cli(port: u16, args: &[&str]) -> String {
    let output = Command::new("redis-cli").args(["-p", &port.to_string()]).args(args).output().unwrap();
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// Waits for something outside of this process that sends no signal.
pub(super) fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < Duration::from_secs(60), "waited a minute for: {what}");
        // To look again may start a program: the longer it takes, the rarer.
        std::thread::sleep((started.elapsed() / 8).clamp(Duration::from_millis(2), Duration::from_millis(30)));
    }
}

pub(super) fn connect(url: &str) -> Connection {
    Connection::new(Settings::new(url)).unwrap()
}

/// An error that comes at once comes long before the deadline of 15 s, also by a machine that has much else to do.
pub(super) const AT_ONCE: Duration = Duration::from_secs(10);

/// Whose calls and connections may last as long as a machine likes that has much else to do.
pub(super) fn connect_patiently(url: &str) -> Connection {
    let mut settings = Settings::new(url);
    settings.deadline = Duration::from_secs(90);
    settings.command_timeout = Duration::from_secs(60);
    settings.connect_timeout = Duration::from_secs(60);
    Connection::new(settings).unwrap()
}

/// With a short deadline, for tests that let it pass, again and again.
pub(super) fn connect_briefly(url: &str, deadline: Duration) -> Connection {
    let mut settings = Settings::new(url);
    settings.deadline = deadline;
    settings.command_timeout = deadline / 3;
    settings.fail_fast = Some(false);
    Connection::new(settings).unwrap()
}

/// Counts its executions in `<key>:runs`, writes `<key>` only once, and always answers what is written there.
pub(super) fn set_once() -> Script {
    Script::new(
        "redis.call('INCR', KEYS[2]) redis.call('SET', KEYS[1], ARGV[1], 'NX') return redis.call('GET', KEYS[1])"
            .into(),
    )
}

pub(super) fn slot_of(key: &str) -> u16 {
    let tag = key.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map_or(key, |(tag, _)| tag);
    crate::script::crc16(tag.as_bytes()) % 16_384
}

pub(super) async fn run_set_once(connection: &Connection, key: &str, value: &str) -> Result<Value, Error> {
    let script = set_once();
    connection.run("push", &set_once_call(&script, key, value)).await
}

pub(super) fn set_once_call<'a>(script: &'a Script, key: &'a str, value: &str) -> Call<'a> {
    let (mut keys, mut args) = (ByteStrings::default(), ByteStrings::default());
    keys.push(key.as_bytes());
    keys.push(format!("{key}:runs").as_bytes());
    args.push(value.as_bytes());
    Call { flags: of_queue(), ..Call::plain(script, "q", slot_of(key), keys, args) }
}

fn of_queue() -> Flags {
    Flags { is_of_queue: true, ..Flags::default() }
}

pub(super) async fn run_text(connection: &Connection, text: &str, key: &str) -> Result<Value, Error> {
    let script = Script::new(text.to_owned());
    let mut keys = ByteStrings::default();
    keys.push(key.as_bytes());
    let call = Call { flags: of_queue(), ..Call::plain(&script, "q", slot_of(key), keys, ByteStrings::default()) };
    connection.run("push", &call).await
}

/// Is a reserve that is sent now told to spare leases that are over?
pub(super) async fn spares(connection: &Connection, key: &str) -> bool {
    let script = Script::new("return ARGV[2]".to_owned());
    let (mut keys, mut args) = (ByteStrings::default(), ByteStrings::default());
    keys.push(key.as_bytes());
    (0..2).for_each(|_| args.push(b"0"));
    let call = Call {
        is_numbered: true,
        flags: Flags { again: Some(0), ahead: Some(1), ..of_queue() },
        ..Call::plain(&script, "q", slot_of(key), keys, args)
    };
    connection.run("reserve", &call).await.unwrap() == bulk("2")
}

pub(super) fn bulk(text: &str) -> Value {
    Value::BulkString(text.as_bytes().to_vec())
}

/// A TCP proxy. After [`LossyProxy::lose_replies`] it swallows that many replies that follow a script call, and cuts
/// the connection there.
pub(super) struct LossyProxy {
    pub(super) port: u16,
    to_lose: Arc<AtomicUsize>,
    pub(super) accepted: Arc<AtomicUsize>,
}

impl LossyProxy {
    pub(super) async fn before(target: u16) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (to_lose, accepted) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (lose, count) = (Arc::clone(&to_lose), Arc::clone(&accepted));
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(carry(client, target, Arc::clone(&lose)));
            }
        });
        Self { port, to_lose, accepted }
    }

    pub(super) fn lose_replies(&self, count: usize) {
        self.to_lose.store(count, Ordering::SeqCst);
    }

    pub(super) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }
}

async fn carry(mut client: tokio::net::TcpStream, target: u16, to_lose: Arc<AtomicUsize>) {
    let Ok(mut server) = tokio::net::TcpStream::connect(("127.0.0.1", target)).await else { return };
    let (mut asked, mut answered) = (vec![0; 65_536], vec![0; 65_536]);
    let mut is_script = false;
    loop {
        tokio::select! {
            read = client.read(&mut asked) => {
                let Ok(count @ 1..) = read else { return };
                // The introduction of a new connection evaluates a text of its own.
                is_script = asked[..count].windows(4).any(|word| word == b"EVAL")
                    && !asked[..count].windows(7).any(|word| word == b"SETNAME");
                if server.write_all(&asked[..count]).await.is_err() { return }
            }
            read = server.read(&mut answered) => {
                let Ok(count @ 1..) = read else { return };
                let unknown = answered.starts_with(b"-NOSCRIPT");
                if is_script && !unknown
                    && to_lose.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok()
                {
                    return;
                }
                if client.write_all(&answered[..count]).await.is_err() { return }
            }
        }
    }
}

/// An authority and a server certificate for `localhost`, made with the openssl command.
pub(super) struct Certificates {
    pub(super) dir: tempfile::TempDir,
}

impl Certificates {
    pub(super) fn make() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let made = Self { dir };
        made.run("openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=test-ca -keyout ca.key -out ca.pem");
        made.run("openssl req -newkey rsa:2048 -nodes -subj /CN=localhost -keyout server.key -out server.csr");
        made.run("printf 'subjectAltName=DNS:localhost' > san && \
             openssl x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile san -out server.pem");
        made
    }

    /// Issues the server's certificate again, valid between these dates of `openssl ca`.
    pub(super) fn sign_server(&self, dates: &str) {
        self.run(
            "echo 01 > serial && touch index && printf '[ca]\ndefault_ca=d\n[d]\ndatabase=index\nserial=serial\npolicy=p\n[p]\nCN=supplied\n' > ca.conf",
        );
        self.run(&format!(
            "openssl ca -batch -config ca.conf -cert ca.pem -keyfile ca.key -md sha256 -outdir . -notext \
             -extfile san {dates} -in server.csr -out server.pem"
        ));
    }

    /// Gives the server a certificate that nobody else has signed.
    pub(super) fn self_signed(&self, more: &str) {
        self.run(&format!(
            "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost \
             {more} -keyout server.key -out server.pem"
        ));
    }

    fn run(&self, line: &str) {
        let output = Command::new("sh").args(["-c", line]).current_dir(self.dir.path()).output().unwrap();
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
}
