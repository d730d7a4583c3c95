//! `Duly\Console`: commands of `duly` that are the same in every language.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;

use ext_php_rs::convert::FromZval as _;
use ext_php_rs::flags::ClassFlags;
use ext_php_rs::prelude::*;
use ext_php_rs::types::ZendHashTable;

use crate::convert::{Text, values};
use crate::error::Fault;

/// The command `duly` without its program.
#[php_class]
#[php(name = "Duly\\Console")]
#[php(flags = ClassFlags::Final)]
pub struct Console {}

fn run(arguments: &ZendHashTable) -> Result<u8, Fault> {
    let bytes = |value| Text::from_zval(value).map(|text| OsString::from_vec(text.bytes()));
    let arguments: Option<Vec<_>> = values(arguments).map(bytes).collect();
    let arguments = arguments.ok_or_else(|| Fault::invalid("arguments must be a list of strings"))?;
    Ok(duly_console::run(arguments, &mut std::io::stdout(), &mut std::io::stderr()))
}

#[php_impl]
impl Console {
    /// Runs a command, which writes to the program's output, and gives its exit status. It takes Ctrl-C itself.
    pub fn run(arguments: &ZendHashTable) -> PhpResult<i64> {
        Ok(run(arguments)?.into())
    }
}
