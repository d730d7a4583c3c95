//! A private Redis for one test, and queues on it that no other test sees.

#![allow(dead_code, unreachable_pub, clippy::unwrap_used)] // each test file is a crate of its own and uses a part of it

pub mod meter;
pub mod process;
pub mod proxy;
pub mod reads;
pub mod slow_line;
pub mod torn;
pub mod verbs;

use std::io::{Read as _, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use duly::{Client, ClientBuilder, Queue};

/// A server of this test's own, on a free port; killed when dropped.
pub struct Server {
    child: Child,
    port: u16,
    folder: tempfile::TempDir,
    arguments: Vec<String>,
}

impl Server {
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    pub fn start_with(arguments: &[&str]) -> Self {
        // Another test program may have taken a port that was free just now.
        (0..10).find_map(|_| Self::try_start_at(free_port(), arguments)).expect("no redis-server came up")
    }

    pub fn start_at(port: u16, arguments: &[&str]) -> Self {
        Self::try_start_at(port, arguments).unwrap_or_else(|| panic!("redis-server on port {port} has ended"))
    }

    fn try_start_at(port: u16, arguments: &[&str]) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
        let child = spawn(port, folder.path(), &arguments);
        let mut server = Self { child, port, folder, arguments };
        server.comes_up().then_some(server)
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The append-only file that is being written, and its size. It is the largest: what it began with is empty.
    pub fn append_only_file(&self) -> (std::path::PathBuf, u64) {
        let folders = [self.folder.path().to_owned(), self.folder.path().join("appendonlydir")];
        let files = folders.iter().filter_map(|folder| std::fs::read_dir(folder).ok()).flatten().map(Result::unwrap);
        let files = files.map(|file| file.path()).filter(|path| path.extension().is_some_and(|end| end == "aof"));
        files.map(|path| (path.clone(), path.metadata().unwrap().len())).max_by_key(|(_, size)| *size).unwrap()
    }

    /// kill -9.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Ends it by kill -9, if it is there, and starts it again on the same port and folder.
    pub fn restart(&mut self) {
        self.kill();
        self.child = spawn(self.port, self.folder.path(), &self.arguments);
        self.until_ready();
    }

    fn until_ready(&mut self) {
        assert!(self.comes_up(), "redis-server on port {} has ended", self.port);
    }

    /// False if it has ended.
    fn comes_up(&mut self) -> bool {
        let until = Instant::now() + Duration::from_secs(60);
        while Instant::now() < until {
            if self.answers().unwrap_or(false) {
                return true;
            }
            if self.child.try_wait().unwrap().is_some() {
                return false;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        panic!("redis-server on port {} did not come up", self.port);
    }

    /// Not while it loads its data, and not another server. Without `redis-cli`, whose start takes longer than that of the server.
    fn answers(&self) -> std::io::Result<bool> {
        let mut stream = std::net::TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_read_timeout(Some(Duration::from_secs(1)))?;
        stream.write_all(b"PING\r\nINFO server\r\nQUIT\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer.starts_with("+PONG") && answer.contains(&format!("process_id:{}\r\n", self.pid())))
    }

    /// A command by `redis-cli`, for what a test does behind duly's back.
    pub fn redis_cli(&self, arguments: &[&str]) -> String {
        let output = Command::new("redis-cli").arg("-p").arg(self.port.to_string()).args(arguments).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Its clock, in µs.
    pub fn clock(&self) -> u64 {
        let time: Vec<u64> =
            self.redis_cli(&["--raw", "TIME"]).lines().map(|part| part.trim().parse().unwrap()).collect();
        time[0] * 1_000_000 + time[1]
    }

    /// Waits until so much time has passed by its clock.
    pub async fn let_pass(&self, time: Duration) {
        let until = self.clock() + u64::try_from(time.as_micros()).unwrap();
        while self.clock() <= until {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// Sends a signal to the server: `-STOP` freezes it, `-CONT` thaws it.
    pub fn signal(&self, name: &str) {
        signal(self.pid(), name);
    }

    /// Starts it again without waiting until it answers.
    pub fn restart_with(&mut self, arguments: &[&str]) {
        self.kill();
        let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
        self.child = spawn(self.port, self.folder.path(), &arguments);
    }

    /// Evaluates a Lua text that gives a list of texts, with these arguments.
    pub fn eval(&self, text: &str, arguments: &[&str]) -> Vec<String> {
        let client = redis::Client::open(self.url()).unwrap();
        let mut connection = client.get_connection().unwrap();
        let values: Vec<Vec<u8>> = redis::cmd("EVAL").arg(text).arg(0).arg(arguments).query(&mut connection).unwrap();
        values.into_iter().map(|value| String::from_utf8_lossy(&value).into_owned()).collect()
    }

    /// Every key with its whole content, in a fixed order. Left out are keys whose name has `without` in it, and the list of queues, which is
    /// written beside any call.
    pub fn dump(&self, without: &str) -> Vec<String> {
        let keys = self.eval(DUMP, &[without]);
        keys.into_iter().filter(|key| !key.contains("{queues}:queues")).collect()
    }

    /// The scripts that it was called for, if its log of slow calls has all calls: each begins with its name.
    pub fn scripts(&self) -> std::collections::BTreeSet<String> {
        let mut connection = redis::Client::open(self.url()).unwrap().get_connection().unwrap();
        let log: redis::Value = redis::cmd("SLOWLOG").arg("GET").arg(1_000_000).query(&mut connection).unwrap();
        let (mut rest, mut names) = (vec![log], std::collections::BTreeSet::new());
        while let Some(value) = rest.pop() {
            match value {
                redis::Value::Array(values) => rest.extend(values),
                redis::Value::BulkString(text) => {
                    let text = String::from_utf8_lossy(&text);
                    let name = text.lines().next().and_then(|line| line.strip_prefix("-- duly: "));
                    names.extend(name.map(str::to_owned));
                }
                _ => {}
            }
        }
        names
    }

    pub fn builder(&self) -> ClientBuilder {
        Client::builder().url(&self.url())
    }

    pub fn client(&self) -> Client {
        self.builder().build().unwrap()
    }

    pub fn queue(&self, name: &str) -> Queue {
        self.client().queue(name).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

const DUMP: &str = r"
local out = {}
for _, key in ipairs(redis.call('KEYS', '*')) do
  if ARGV[1] == '' or not string.find(key, ARGV[1], 1, true) then
    local kind = redis.call('TYPE', key).ok
    local parts = {}
    if kind == 'hash' then
      local fields = redis.call('HGETALL', key)
      for i = 1, #fields, 2 do parts[#parts + 1] = fields[i] .. '=' .. fields[i + 1] end
      table.sort(parts)
    elseif kind == 'zset' then
      parts = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')
    elseif kind == 'list' then
      parts = redis.call('LRANGE', key, 0, -1)
    elseif kind == 'string' then
      parts = { redis.call('GET', key) }
    end
    out[#out + 1] = key .. ' ' .. kind .. ' ' .. table.concat(parts, '|')
  end
end
table.sort(out)
return out
";

/// Sends a signal to a process.
pub fn signal(pid: u32, name: &str) {
    assert!(Command::new("kill").args([name, &pid.to_string()]).status().unwrap().success());
}

/// Waits for something in another process that sends no signal.
pub async fn eventually<F: Future<Output = bool>>(what: &str, is_so: impl FnMut() -> F) {
    eventually_within(Duration::from_secs(60), what, is_so).await;
}

/// The same for what takes longer.
pub async fn eventually_within<F: Future<Output = bool>>(most: Duration, what: &str, mut is_so: impl FnMut() -> F) {
    let started = Instant::now();
    while !is_so().await {
        assert!(started.elapsed() < most, "waited {most:?} for: {what}");
        // To look again may start a program: the longer it takes, the rarer.
        let pause = (started.elapsed() / 8).clamp(Duration::from_millis(2), Duration::from_millis(20));
        tokio::time::sleep(pause).await;
    }
}

/// A port that nobody listens on just now, below those that the kernel hands out and not given twice: a server that was killed
/// finds its own free.
pub fn free_port() -> u16 {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let first = std::process::id() as usize * 31;
    loop {
        let number = (first + NEXT.fetch_add(1, Ordering::Relaxed)) % 2_600;
        let port = 30_100 + u16::try_from(number).unwrap();
        if std::net::TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// A port whose bus has the port 10,000 higher (an own number for it came with 7.0). Both are below those that the kernel
/// hands out, so that nobody gets one of them in between.
pub fn cluster_port(number: u32) -> u16 {
    let is_free = |port: u16| std::net::TcpListener::bind(("127.0.0.1", port)).is_ok();
    (0..6_000)
        .map(|turn| 11_000 + u16::try_from((std::process::id() * 31 + 4_500 + 100 * number + turn) % 6_000).unwrap())
        .find(|&port| is_free(port) && is_free(port + 10_000))
        .unwrap()
}

/// The server to test against: `DULY_TEST_SERVER` names another version than the machine's.
pub fn server_program() -> std::ffi::OsString {
    std::env::var_os("DULY_TEST_SERVER").unwrap_or_else(|| "redis-server".into())
}

fn spawn(port: u16, folder: &std::path::Path, arguments: &[String]) -> Child {
    Command::new(server_program())
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--dir"])
        .arg(folder)
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("redis-server must be installed: run tools/setup.sh")
}
