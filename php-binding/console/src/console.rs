//! `Duly\Console`: commands of `duly` that are the same in every language.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;

use duly_php_shared::convert::{Text, values};
use duly_php_shared::error::Fault;
use ext_php_rs::convert::FromZval as _;
use ext_php_rs::flags::ClassFlags;
use ext_php_rs::prelude::*;
use ext_php_rs::types::ZendHashTable;

/// The command `duly` without its program.
#[php_class]
#[php(name = "Duly\\Console")]
#[php(flags = ClassFlags::Final)]
pub struct Console {}

fn run(arguments: &ZendHashTable) -> Result<u8, Fault> {
    let bytes = |value| Text::from_zval(value).map(|text| OsString::from_vec(text.bytes()));
    let arguments: Option<Vec<_>> = values(arguments).map(bytes).collect();
    let arguments = arguments.ok_or_else(|| Fault::invalid("arguments must be a list of strings"))?;
    let _as_php_has_them = AsPhp::all();
    Ok(duly_console::run(arguments, &mut std::io::stdout(), &mut std::io::stderr()))
}

/// PHP puts a handler of its own before each signal, also before one that is ignored, as `nohup` has it, and before one that nobody
/// handles: the command could not see that. While this lives, such a signal is ignored by the system itself, or ends the process.
struct AsPhp {
    signal: libc::c_int,
    before: libc::sigaction,
}

/// What `zend_sigaction` is, since PHP 5.4.
type Ask = extern "C" fn(libc::c_int, *const libc::sigaction, *mut libc::sigaction);

impl AsPhp {
    /// Those for which the program has no handler.
    fn all() -> Vec<Self> {
        // SAFETY: the name ends with a zero. A PHP without handlers of its own has no such function, and the system knows all then.
        let ask = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"zend_sigaction".as_ptr()) };
        if ask.is_null() {
            return Vec::new();
        }
        // SAFETY: PHP has declared it so since 5.4.
        let ask = unsafe { std::mem::transmute::<*mut libc::c_void, Ask>(ask) };
        [libc::SIGINT, libc::SIGTERM, libc::SIGHUP].into_iter().filter_map(|signal| Self::of(signal, ask)).collect()
    }

    /// Nothing if the program has a handler.
    fn of(signal: libc::c_int, ask: Ask) -> Option<Self> {
        // SAFETY: all zeros is a valid action.
        let mut set: libc::sigaction = unsafe { std::mem::zeroed() };
        // It only writes what is set, to an action that lives until it returns.
        ask(signal, std::ptr::null(), &raw mut set);
        [libc::SIG_IGN, libc::SIG_DFL].contains(&set.sa_sigaction).then(|| {
            // SAFETY: both actions live until their calls return.
            let before = unsafe {
                let mut before: libc::sigaction = std::mem::zeroed();
                libc::sigaction(signal, std::ptr::null(), &raw mut before);
                libc::signal(signal, set.sa_sigaction);
                before
            };
            Self { signal, before }
        })
    }
}

impl Drop for AsPhp {
    fn drop(&mut self) {
        // SAFETY: it was set before.
        unsafe { libc::sigaction(self.signal, &raw const self.before, std::ptr::null_mut()) };
    }
}

#[php_impl]
impl Console {
    /// Runs a command, which writes to the program's output, and gives its exit status. A signal for which the program has a handler
    /// ends it first.
    pub fn run(arguments: &ZendHashTable) -> PhpResult<i64> {
        Ok(run(arguments)?.into())
    }
}
