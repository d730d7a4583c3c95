//! The bridge between two servers: how many packages of each other queue a second come over, and go back.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use duly::{Bridge, BridgeReport, Client, OldQueue};

use crate::RUNS;
use crate::cycle::count;
use crate::figure::Figure;
use crate::server::{Failure, Server};

const PACKAGES: usize = 100_000;

/// What the scripts below share. Every job has the same data, of 150 bytes.
const SHARED: &str = r#"
    local note, due = string.rep('x', 100), 4102444800
    local function queue_of(i)
        return i % 2 == 0 and 'orders' or 'mail'
    end
    local function data(i)
        return '{"order_id":' .. i .. ',"kind":"unpaid","note":"' .. note .. '"}'
    end
    local function package(i, queue)
        return '{"id":"1690000000.5.' .. i .. '","time":1690000000,"delay":0,"attempts":0,' .. queue .. '"data":' .. data(i) .. '}'
    end
    local function payload(i)
        return '{"job":"close","maxTries":null,"timeout":null,"data":' .. data(i) .. ',"id":"id-' .. i .. '","attempts":0}'
    end
    local body = 'W1tdLCB7Im9yZGVyX2lkIjogNDIsICJraW5kIjogInVucGFpZCIsICJub3RlIjogInh4' .. string.rep('eHh4', 33) ..
        'In0sIHsiY2FsbGJhY2tzIjogbnVsbCwgImVycmJhY2tzIjogbnVsbCwgImNoYWluIjogbnVsbCwgImNob3JkIjogbnVsbH1d'
    local function message(i, queue)
        return '{"body":"' .. body .. '","content-encoding":"utf-8","content-type":"application/json","headers":{"lang":"py","task":"close","id":"t-' ..
            i .. '","shadow":null,"eta":null,"expires":null,"group":null,"retries":0,"timelimit":[null,null],"root_id":"t-' .. i ..
            '","parent_id":null,"origin":"gen1@shop","ignore_result":false},"properties":{"correlation_id":"t-' .. i ..
            '","delivery_mode":2,"delivery_info":{"exchange":"","routing_key":"' .. queue .. '"},"priority":0,"body_encoding":"base64"}}'
    end
    local function pool(i, queue, status)
        redis.call('HMSET', 'gmq:jobpool:' .. i, 'id', i, 'topic', queue, 'delay', '0', 'TTR', '30', 'body', data(i), 'status', status, 'consume_num', '0')
    end
"#;

/// Another queue with its keys. Those that jobs of several queues share have jobs of two: each batch comes over in two parts.
struct Source {
    name: &'static str,
    old: fn() -> Result<OldQueue, duly::Error>,
    /// What is measured, and how a script writes the package `i`.
    keys: [(&'static str, &'static str); 2],
    goes_back: bool,
}

const BOTH: [&str; 2] = ["orders", "mail"];

const SOURCES: [Source; 5] = [
    Source {
        name: "thinkphp",
        old: || OldQueue::thinkphp("bench"),
        keys: [
            ("delayed", "redis.call('ZADD', 'redis:queue:delay', due + i, package(i, ''))"),
            ("ready", "redis.call('LPUSH', 'redis:queue:ready', package(i, ''))"),
        ],
        goes_back: true,
    },
    Source {
        name: "workerman",
        old: || OldQueue::workerman("", &BOTH),
        keys: [
            (
                "shared",
                r#"redis.call('ZADD', '{redis-queue}-delayed', due + i, package(i, '"queue":"' .. queue_of(i) .. '",'))"#,
            ),
            ("ready", r#"redis.call('LPUSH', '{redis-queue}-waitingorders', package(i, '"queue":"orders",'))"#),
        ],
        goes_back: false,
    },
    Source {
        name: "think-queue",
        old: || OldQueue::think_queue(&["orders"]),
        keys: [
            ("delayed", "redis.call('ZADD', '{queues:orders}:delayed', due + i, payload(i))"),
            ("ready", "redis.call('RPUSH', '{queues:orders}', payload(i))"),
        ],
        goes_back: false,
    },
    Source {
        name: "celery",
        old: || OldQueue::celery("", &BOTH, Duration::from_secs(3600)),
        keys: [
            // Their workers are long gone.
            (
                "shared",
                r#"local queue = queue_of(i)
                redis.call('HSET', 'unacked', i, '[' .. message(i, queue) .. ',"","' .. queue .. '"]')
                redis.call('ZADD', 'unacked_index', 1690000000, i)"#,
            ),
            ("ready", "redis.call('LPUSH', 'orders', message(i, 'orders'))"),
        ],
        goes_back: false,
    },
    Source {
        name: "gmq",
        old: || OldQueue::gmq(&BOTH, 3, 3),
        keys: [
            ("shared", "pool(i, queue_of(i), '1') redis.call('ZADD', 'gmq:bucket:' .. i % 3, due + i, i)"),
            ("ready", "pool(i, 'orders', '2') redis.call('LPUSH', 'gmq:readyqueue:orders', i)"),
        ],
        goes_back: false,
    },
];

pub(crate) async fn measure(server: &mut Server) -> Result<(), Failure> {
    let old = OldServer::start()?;
    let mut at_old = Server::connect(&old.url)?;
    for source in &SOURCES {
        let mut figures = [Figure::default(), Figure::default()];
        let mut back = Figure::default();
        for _ in 0..RUNS {
            for ((_, write), figure) in source.keys.iter().zip(&mut figures) {
                server.flush()?;
                at_old.flush()?;
                at_old.evaluate(&format!("{SHARED} for i = 1, {PACKAGES} do {write} end"))?;
                figure.add(rate(source, &at_old.client()?, &server.client()?, false).await?);
            }
            if source.goes_back {
                // What was ready.
                back.add(rate(source, &at_old.client()?, &server.client()?, true).await?);
            }
        }
        for ((key, _), figure) in source.keys.iter().zip(figures) {
            figure.print(&format!("bridge.packages_per_s.{}.{key}", source.name), "1/s");
        }
        back.print(&format!("bridge.packages_per_s.{}.back", source.name), "1/s");
    }
    server.flush()
}

async fn rate(old: &Source, source: &Client, target: &Client, is_back: bool) -> Result<f64, Failure> {
    let bridge = Bridge::new(source, target, (old.old)()?);
    let bridge = if is_back { bridge.back()? } else { bridge };
    source.ping().await?;
    target.ping().await?;
    let started = Instant::now();
    let report: BridgeReport = bridge.drain(|_| {}).await?;
    let seconds = started.elapsed().as_secs_f64();
    if !report.is_complete() || report.moved() != PACKAGES as u64 {
        return Err(format!("not all packages of {} were moved: {report}", old.name).into());
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
