//! The command `duly` for those who run queues: one function from arguments to output, which the binary and the skins call.
//!
//! | file | duty |
//! |---|---|
//! | `bridge.rs` | `duly bridge`: takes over the jobs of another queue |
//! | `counts.rs` | `duly counts`: how many jobs are in which state |

mod bridge;
mod counts;

use std::ffi::OsString;
use std::io::Write;

use clap::{Args, Parser, Subcommand};
use duly::{Client, ClientBuilder, Error, ErrorKind};

/// All went well.
pub const DONE: u8 = 0;
/// The server refused, or something is left to do.
pub const FAILED: u8 = 1;
/// A wrong command line.
pub const USAGE: u8 = 2;
/// Ended by Ctrl-C.
pub const INTERRUPTED: u8 = 130;

/// Shows how many jobs queues have, and takes over the jobs of other queues.
#[derive(Debug, Parser)]
#[command(name = "duly", version, about, max_term_width = 120)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Bridge(Box<bridge::Bridge>),
    Counts(counts::Counts),
}

/// Which server of duly.
#[derive(Debug, Args)]
struct Target {
    /// URL of duly's server
    #[arg(long, env = "DULY_URL", hide_env_values = true, default_value = "redis://127.0.0.1:6379")]
    url: String,
    /// The beginning of all keys of duly
    #[arg(long, default_value = duly::DEFAULT_PREFIX)]
    prefix: String,
}

impl Target {
    fn builder(&self) -> ClientBuilder {
        let builder = Client::builder().prefix(&self.prefix);
        // An empty variable is none, as in every language.
        if self.url.is_empty() { builder } else { builder.url(&self.url) }
    }

    fn client(&self) -> Result<Client, Error> {
        self.builder().build()
    }
}

/// The outputs of a command.
struct Output<'a> {
    out: &'a mut dyn Write,
    /// Progress and errors.
    err: &'a mut dyn Write,
}

/// Runs the command and gives its exit status. `arguments`: without the name of the program.
pub fn run(arguments: impl IntoIterator<Item = impl Into<OsString>>, out: &mut dyn Write, err: &mut dyn Write) -> u8 {
    let all = std::iter::once("duly".into()).chain(arguments.into_iter().map(Into::into));
    let arguments = match Arguments::try_parse_from(all) {
        Ok(arguments) => arguments,
        Err(said) => {
            let text = said.render().to_string();
            // Who asks for help gets it on the output.
            let is_error = said.use_stderr();
            _ = if is_error { err.write_all(text.as_bytes()) } else { out.write_all(text.as_bytes()) };
            return if is_error { USAGE } else { DONE };
        }
    };
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            _ = writeln!(err, "duly: the system gives no thread: {error}");
            return FAILED;
        }
    };
    let output = Output { out, err: &mut *err };
    let ended = runtime.block_on(async {
        match &arguments.command {
            Command::Bridge(command) => command.run(output).await,
            Command::Counts(command) => command.run(output).await,
        }
    });
    ended.unwrap_or_else(|error| {
        _ = writeln!(err, "duly: {error}");
        if matches!(error.kind(), ErrorKind::InvalidArgument | ErrorKind::WrongServer) { USAGE } else { FAILED }
    })
}
