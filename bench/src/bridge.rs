//! The bridge between two servers: how many packages of `ThinkPHP`'s `Queue.php` a second come over and go back.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use duly::{Bridge, BridgeReport, Client, OldQueue};

use crate::RUNS;
use crate::cycle::count;
use crate::figure::Figure;
use crate::server::{Failure, Server};

const PACKAGES: usize = 100_000;

pub(crate) async fn measure(server: &mut Server) -> Result<(), Failure> {
    let (mut ready, mut delayed, mut back) = (Figure::default(), Figure::default(), Figure::default());
    let old = OldServer::start()?;
    let mut source = Server::connect(&old.url)?;
    for _ in 0..RUNS {
        for (figure, fill) in [
            (&mut delayed, "redis.call('ZADD', 'redis:queue:delay', 4102444800 + i, package)"),
            (&mut ready, "redis.call('LPUSH', 'redis:queue:ready', package)"),
        ] {
            server.flush()?;
            source.flush()?;
            source.evaluate(&format!(
                r#"for i = 1, {PACKAGES} do
                    local package = '{{"id":"1690000000.5.' .. i .. '","time":1690000000,"delay":0,"attempts":0,"data":{{"order_id":' .. i .. ',"kind":"unpaid","note":"' .. string.rep('x', 100) .. '"}}}}'
                    {fill}
                end"#
            ))?;
            figure.add(rate(&source.client()?, &server.client()?, false).await?);
        }
        // What is ready goes back.
        back.add(rate(&source.client()?, &server.client()?, true).await?);
    }
    ready.print("bridge.packages_per_s.ready", "1/s");
    delayed.print("bridge.packages_per_s.delayed", "1/s");
    back.print("bridge.packages_per_s.back", "1/s");
    server.flush()
}

async fn rate(source: &Client, target: &Client, is_back: bool) -> Result<f64, Failure> {
    let bridge = Bridge::new(source, target, OldQueue::thinkphp("bench")?);
    let bridge = if is_back { bridge.back()? } else { bridge };
    source.ping().await?;
    target.ping().await?;
    let started = Instant::now();
    let report: BridgeReport = bridge.drain(|_| {}).await?;
    let seconds = started.elapsed().as_secs_f64();
    if !report.is_complete() || report.moved() != PACKAGES as u64 {
        return Err(format!("not all packages were moved: {report}").into());
    }
    Ok(count(PACKAGES) / seconds)
}

/// The server of the old queue, beside the one that is measured.
struct OldServer {
    process: Child,
    url: String,
    socket: std::path::PathBuf,
}

impl OldServer {
    fn start() -> Result<Self, Failure> {
        let socket = std::env::temp_dir().join(format!("duly-bench-{}.sock", std::process::id()));
        let process = Command::new("redis-server")
            .args(["--port", "0", "--save", "", "--appendonly", "no", "--unixsocket"])
            .arg(&socket)
            .stdout(Stdio::null())
            .spawn()?;
        let old = Self { process, url: format!("unix://{}", socket.display()), socket };
        let started = Instant::now();
        while Server::connect(&old.url).is_err() {
            if started.elapsed() > Duration::from_secs(10) {
                return Err("the server of the old queue does not answer".into());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(old)
    }
}

impl Drop for OldServer {
    fn drop(&mut self) {
        // It has nothing to keep.
        _ = self.process.kill();
        _ = self.process.wait();
        _ = std::fs::remove_file(&self.socket);
    }
}
