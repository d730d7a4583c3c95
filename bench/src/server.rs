//! The server as an onlooker sees it: its CPU time, its memory, its slow calls.

use std::time::{Duration, Instant};

/// Why a measurement could not be made.
pub(crate) type Failure = Box<dyn std::error::Error>;

/// A connection of its own, so that looking does not disturb what is measured.
pub(crate) struct Server {
    url: String,
    connection: redis::Connection,
}

/// What one phase of a run took.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Phase {
    pub(crate) seconds: f64,
    pub(crate) server_us: f64,
}

/// The start of a phase.
pub(crate) struct Started {
    at: Instant,
    server_us: f64,
}

impl Server {
    pub(crate) fn connect(url: &str) -> Result<Self, Failure> {
        let connection = redis::Client::open(url)?.get_connection()?;
        Ok(Self { url: url.to_owned(), connection })
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// An engine's client with connections of its own.
    pub(crate) fn client(&self) -> Result<duly::Client, Failure> {
        Ok(duly::Client::builder().url(&self.url).build()?)
    }

    /// Forgets everything, and is done with it when this returns.
    pub(crate) fn flush(&mut self) -> Result<(), Failure> {
        Ok(redis::cmd("FLUSHALL").arg("SYNC").query(&mut self.connection)?)
    }

    /// Runs a script, such as one that fills a queue which duly does not write.
    pub(crate) fn evaluate(&mut self, script: &str) -> Result<(), Failure> {
        Ok(redis::cmd("EVAL").arg(script).arg(0).exec(&mut self.connection)?)
    }

    pub(crate) fn start(&mut self) -> Result<Started, Failure> {
        Ok(Started { server_us: self.cpu_us()?, at: Instant::now() })
    }

    pub(crate) fn end(&mut self, started: &Started) -> Result<Phase, Failure> {
        let seconds = started.at.elapsed().as_secs_f64();
        Ok(Phase { seconds, server_us: self.cpu_us()? - started.server_us })
    }

    /// CPU time of the server so far, user and system.
    fn cpu_us(&mut self) -> Result<f64, Failure> {
        let info = self.info("cpu")?;
        Ok((field(&info, "used_cpu_user")? + field(&info, "used_cpu_sys")?) * 1e6)
    }

    /// Bytes in use without the buffers of clients.
    pub(crate) fn memory(&mut self) -> Result<f64, Failure> {
        let info = self.info("memory")?;
        Ok(field(&info, "used_memory")? - field(&info, "mem_clients_normal")?)
    }

    /// From now on remembers the calls that last a millisecond or more.
    pub(crate) fn watch_slow_calls(&mut self) -> Result<(), Failure> {
        redis::cmd("CONFIG").arg("SET").arg("slowlog-log-slower-than").arg(1000).exec(&mut self.connection)?;
        redis::cmd("CONFIG").arg("SET").arg("slowlog-max-len").arg(100_000).exec(&mut self.connection)?;
        Ok(redis::cmd("SLOWLOG").arg("RESET").exec(&mut self.connection)?)
    }

    /// The longest script call since the last look, as the server itself timed it; 1 ms when all were faster.
    pub(crate) fn slowest_script(&mut self) -> Result<Duration, Failure> {
        let entries: Vec<Vec<redis::Value>> = redis::cmd("SLOWLOG").arg("GET").arg(-1).query(&mut self.connection)?;
        redis::cmd("SLOWLOG").arg("RESET").exec(&mut self.connection)?;
        let mut longest = Duration::from_millis(1);
        for entry in entries {
            let [_, _, redis::Value::Int(us), redis::Value::Array(words), ..] = entry.as_slice() else { continue };
            let is_script = matches!(words.first(), Some(redis::Value::BulkString(word)) if word.starts_with(b"EVAL"));
            if is_script {
                longest = longest.max(Duration::from_micros(u64::try_from(*us)?));
            }
        }
        Ok(longest)
    }

    fn info(&mut self, section: &str) -> Result<String, Failure> {
        Ok(redis::cmd("INFO").arg(section).query(&mut self.connection)?)
    }
}

fn field(info: &str, name: &str) -> Result<f64, Failure> {
    let value = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    Ok(value.ok_or_else(|| format!("the server's INFO has no {name}"))?.trim().parse()?)
}
