//! This test program, started again as a process of its own, which runs one test alone: what a worker does.

use std::io::{BufRead, BufReader, Lines};
use std::process::{Child, ChildStdout, Command, Stdio};

use super::Server;

/// Killed when dropped.
pub struct Process {
    pub child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Process {
    /// Runs this test, such as `crash::worker_process`. It finds the server in `DULY_TEST_URL`, and what it is to do in
    /// `DULY_TEST_WORKER`.
    pub fn start(server: &Server, test: &str, role: &str) -> Self {
        Self::start_at(&server.url(), test, role)
    }

    /// The same, which finds the server there.
    pub fn start_at(url: &str, test: &str, role: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture", "--test-threads", "1"])
            .env("DULY_TEST_WORKER", role)
            .env("DULY_TEST_URL", url)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// The number behind this word, once the process has said it.
    pub fn heard(&mut self, word: &str) -> usize {
        let said = self
            .lines
            .by_ref()
            .map(Result::unwrap)
            .find_map(|line| line.strip_prefix(word).and_then(|number| number.trim().parse().ok()));
        said.unwrap_or_else(|| panic!("the worker ended without saying '{word}'"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
