//! An append-only file that ends within a script, as a machine that dies leaves it, and what a server has that executes what is there of it.

use super::Server;

pub type Command = Vec<Vec<u8>>;

/// A server that writes each command down, and notes which scripts were called.
pub fn writing() -> Server {
    Server::start_with(&[
        "--appendonly",
        "yes",
        "--appendfsync",
        "always",
        "--aof-use-rdb-preamble",
        "no",
        "--slowlog-log-slower-than",
        "0",
        "--slowlog-max-len",
        "1000000",
    ])
}

/// The commands of an append-only file, in order.
fn commands(file: &[u8]) -> Vec<Command> {
    let mut rest = file;
    let line = |rest: &mut &[u8]| {
        let end = rest.windows(2).position(|two| two == b"\r\n").unwrap();
        let text = String::from_utf8(rest[..end].to_vec()).unwrap();
        *rest = &rest[end + 2..];
        text
    };
    let mut all = Vec::new();
    while !rest.is_empty() {
        let head = line(&mut rest);
        if head.starts_with('#') {
            continue; // an annotation
        }
        let count: usize = head.strip_prefix('*').unwrap().parse().unwrap();
        let mut words = Vec::new();
        for _ in 0..count {
            let length: usize = line(&mut rest).strip_prefix('$').unwrap().parse().unwrap();
            words.push(rest[..length].to_vec());
            rest = &rest[length + 2..];
        }
        all.push(words);
    }
    all
}

pub fn is(command: &Command, word: &str) -> bool {
    command[0].eq_ignore_ascii_case(word.as_bytes())
}

pub fn shown(command: &Command) -> Vec<String> {
    command.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

/// What a server has written until now.
pub struct Written(pub Vec<Command>);

impl Written {
    pub fn by(server: &Server) -> Self {
        Self(commands(&std::fs::read(server.append_only_file().0).unwrap()))
    }

    /// Behind which commands the file may end within a script, from the `first` one on.
    pub fn cuts(&self, first: usize) -> Vec<usize> {
        let (mut inside, mut cuts) = (false, Vec::new());
        for (at, command) in self.0.iter().enumerate() {
            inside = (inside || is(command, "MULTI")) && !is(command, "EXEC");
            if inside && at >= first && !is(command, "MULTI") && !is(&self.0[at + 1], "EXEC") {
                cuts.push(at);
            }
        }
        cuts
    }
}

/// A server that gets the same again.
pub struct Again {
    pub server: Server,
    connection: redis::Connection,
}

impl Again {
    pub fn start() -> Self {
        let server = Server::start();
        let connection = redis::Client::open(server.url()).unwrap().get_connection().unwrap();
        Self { server, connection }
    }

    /// All before this command, and this one.
    pub fn replay(&mut self, written: &Written, at: usize) {
        let mut replay = redis::pipe();
        replay.cmd("FLUSHALL");
        for command in written.0[..=at].iter().filter(|command| !is(command, "MULTI") && !is(command, "EXEC")) {
            let cmd = replay.cmd(&String::from_utf8_lossy(&command[0]));
            for word in &command[1..] {
                cmd.arg(word);
            }
        }
        let _: redis::Value = replay.query(&mut self.connection).unwrap();
    }
}
