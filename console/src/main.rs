//! The command `duly`.

use std::process::ExitCode;

fn main() -> ExitCode {
    let (mut out, mut err) = (std::io::stdout(), std::io::stderr());
    duly_console::run(std::env::args_os().skip(1), &mut out, &mut err).into()
}
