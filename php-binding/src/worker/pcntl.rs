//! Whether a handler has called a function of pcntl whose effect is to end with its run. To undo that takes a call of the
//! system, one of which is a twentieth of a short run: so it is done only behind such a call.

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU8, Ordering};

use ext_php_rs::ffi::{ext_php_rs_compiler_globals, zend_function};
use ext_php_rs::types::Zval;
use ext_php_rs::zend::ExecuteData;

type Handler = unsafe extern "C" fn(*mut ExecuteData, *mut Zval);

pub static ALARM: Function = Function::new("pcntl_alarm");
pub static SIGPROCMASK: Function = Function::new("pcntl_sigprocmask");

/// Who asks whether a function was called.
#[derive(Clone, Copy)]
pub enum Since {
    Next = 1,
    ClearAlarm = 2,
}

/// A function of pcntl, before which a note stands that it was called.
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
        let Some(function) = functions.get(self.name) else { return };
        // SAFETY: it holds functions, and one of this name an extension's: programs are not read yet.
        let function = unsafe { &mut (*function.value.ptr.cast::<zend_function>()).internal_function };
        // A server that starts its PHP anew comes here again, with functions that are new.
        if let Some(run) = function.handler.replace(noted) {
            self.run.store(run as *mut c_void, Ordering::Relaxed);
        }
    }

    fn run(&self, call: *mut ExecuteData, answer: *mut Zval) {
        self.called.store(u8::MAX, Ordering::Relaxed);
        // SAFETY: `watch` has put it there, and it is called as PHP would have called it.
        unsafe { std::mem::transmute::<*mut c_void, Handler>(self.run.load(Ordering::Relaxed))(call, answer) }
    }
}

/// To be called when the extension is loaded: what PHP compiles from then on calls what stands before the functions.
pub fn watch() {
    unsafe extern "C" fn alarm(call: *mut ExecuteData, answer: *mut Zval) {
        ALARM.run(call, answer);
    }
    unsafe extern "C" fn sigprocmask(call: *mut ExecuteData, answer: *mut Zval) {
        SIGPROCMASK.run(call, answer);
    }
    ALARM.watch(alarm);
    SIGPROCMASK.watch(sigprocmask);
}
