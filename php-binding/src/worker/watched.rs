//! Whether a handler has called a function of PHP whose effect is to end with its run. To look at all that may have changed, and to undo
//! it, takes as long as a short run: so that is done only behind such a call.

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, Ordering};

use ext_php_rs::ffi::{ext_php_rs_compiler_globals, zend_function};
use ext_php_rs::types::Zval;
use ext_php_rs::zend::ExecuteData;

type Handler = unsafe extern "C" fn(*mut ExecuteData, *mut Zval);

/// Was one of them called?
static ANY_CALLED: AtomicBool = AtomicBool::new(true);
/// One that may be called cannot be watched.
static IS_BLIND: AtomicBool = AtomicBool::new(false);

/// Was one of them called since this was asked before? Always true the first time, and where nobody can know.
pub fn was_any_called() -> bool {
    IS_BLIND.load(Ordering::Relaxed) || ANY_CALLED.load(Ordering::Relaxed) && ANY_CALLED.swap(false, Ordering::Relaxed)
}

/// Who asks whether a function was called.
#[derive(Clone, Copy)]
pub enum Since {
    Next = 1,
    ClearAlarm = 2,
}

/// A function before which a note stands that it was called.
pub struct Function {
    name: &'static str,
    /// For which of those who ask it was called.
    called: AtomicU8,
    /// What PHP called before; null where PHP has no such function, or had none yet when duly was loaded.
    run: AtomicPtr<c_void>,
}

impl Function {
    const fn new(name: &'static str) -> Self {
        Self { name, called: AtomicU8::new(u8::MAX), run: AtomicPtr::new(ptr::null_mut()) }
    }

    /// Was it called since the same last asked? Always true the first time, and where nobody can know.
    pub fn was_called(&self, since: Since) -> bool {
        let bit = since as u8;
        self.run.load(Ordering::Relaxed).is_null()
            || self.called.load(Ordering::Relaxed) & bit != 0
                && self.called.fetch_and(!bit, Ordering::Relaxed) & bit != 0
    }

    fn watch(&self, noted: Handler) {
        // SAFETY: PHP has one, with a table of functions, before extensions are started.
        let functions =
            unsafe { ext_php_rs_compiler_globals().as_ref().and_then(|globals| globals.function_table.as_ref()) };
        let Some(functions) = functions else { return };
        let Some(function) = functions.get(self.name) else {
            // An extension that is loaded behind this one may still bring it; what is PHP's own is not there because it is forbidden.
            IS_BLIND.fetch_or(self.name.starts_with("pcntl_"), Ordering::Relaxed);
            return;
        };
        // SAFETY: it holds functions, and one of this name an extension's: programs are not read yet.
        let function = unsafe { &mut (*function.value.ptr.cast::<zend_function>()).internal_function };
        // A server that starts its PHP anew comes here again, with functions that are new.
        if let Some(run) = function.handler.replace(noted) {
            self.run.store(run as *mut c_void, Ordering::Relaxed);
        }
    }

    fn run(&self, call: *mut ExecuteData, answer: *mut Zval) {
        self.called.store(u8::MAX, Ordering::Relaxed);
        // SAFETY: PHP calls it with the arguments that it counts here.
        let has_arguments = unsafe { (*call).This.u2.num_args > 0 };
        // Whoever asks whether there are signals changes nothing.
        if has_arguments || !ptr::eq(self, &raw const ASYNC_SIGNALS) {
            ANY_CALLED.store(true, Ordering::Relaxed);
        }
        // SAFETY: `watch` has put it there, and it is called as PHP would have called it.
        unsafe { std::mem::transmute::<*mut c_void, Handler>(self.run.load(Ordering::Relaxed))(call, answer) }
    }
}

macro_rules! watched {
    ($($function:ident = $name:literal),* $(,)?) => {
        $(pub static $function: Function = Function::new($name);)*

        /// To be called when the extension is loaded: what PHP compiles from then on calls what stands before the functions.
        pub fn watch() {
            $({
                unsafe extern "C" fn noted(call: *mut ExecuteData, answer: *mut Zval) {
                    $function.run(call, answer);
                }
                $function.watch(noted);
            })*
        }
    };
}

watched! {
    ALARM = "pcntl_alarm",
    SIGPROCMASK = "pcntl_sigprocmask",
    SIGNAL = "pcntl_signal",
    ASYNC_SIGNALS = "pcntl_async_signals",
    SET_TIME_LIMIT = "set_time_limit",
    INI_SET = "ini_set",
    INI_ALTER = "ini_alter",
    INI_RESTORE = "ini_restore",
    OB_START = "ob_start",
    OB_END_CLEAN = "ob_end_clean",
    OB_END_FLUSH = "ob_end_flush",
    OB_GET_CLEAN = "ob_get_clean",
    OB_GET_FLUSH = "ob_get_flush",
    OUTPUT_ADD_REWRITE_VAR = "output_add_rewrite_var",
}
