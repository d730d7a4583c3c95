//! `Duly\Console`: commands of `duly` that are the same in every language.

use ext_php_rs::flags::ClassFlags;
use ext_php_rs::prelude::*;
use ext_php_rs::types::ZendHashTable;

use crate::convert::{text, values};
use crate::error::Fault;

/// The command `duly` without its program.
#[php_class]
#[php(name = "Duly\\Console")]
#[php(flags = ClassFlags::Final)]
pub struct Console {}

fn run(arguments: &ZendHashTable) -> Result<u8, Fault> {
    let arguments = values(arguments).map(|value| text("arguments", value)).collect::<Result<Vec<_>, _>>()?;
    Ok(duly_console::run(arguments, &mut std::io::stdout(), &mut std::io::stderr()))
}

#[php_impl]
impl Console {
    /// Runs a command, which writes to the program's output, and gives its exit status. It takes Ctrl-C itself.
    pub fn run(arguments: &ZendHashTable) -> PhpResult<i64> {
        Ok(run(arguments)?.into())
    }
}
