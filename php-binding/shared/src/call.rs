//! Calls of PHP code. A fatal error in it is a long jump, which would skip every frame of Rust between: all calls go through
//! here, where it is caught; the engine gets it back when these frames have been left (see `method`).

use std::ops::{Deref, DerefMut};
use std::panic::AssertUnwindSafe;

use ext_php_rs::convert::IntoZvalDyn;
use ext_php_rs::types::{ZendCallable, ZendObject, Zval};
use ext_php_rs::zend::{CatchError, ExecutorGlobals, try_catch};

use crate::error::Fault;
use crate::method::bail_out_at_the_end;

/// Runs what may run PHP code. Nothing of Rust may be made in it that it does not give back: a fatal error skips its end.
pub fn guarded<T>(call: impl FnOnce() -> T) -> Result<T, Fault> {
    let frame = ExecutorGlobals::get().current_execute_data;
    match try_catch(AssertUnwindSafe(call)) {
        Ok(_) if ExecutorGlobals::has_exception() => Err(Fault::Thrown),
        Ok(answer) => Ok(answer),
        Err(CatchError::Panic(what)) => Err(duly::Error::new(duly::ErrorKind::Internal, what).into()),
        Err(_) => {
            // The engine forgets the frame, which is still there: that of the method that runs.
            ExecutorGlobals::get_mut().current_execute_data = frame;
            Err(Fault::BailedOut)
        }
    }
}

/// Calls a function of PHP that is always there.
pub fn function(name: &str, arguments: Vec<&dyn IntoZvalDyn>) -> Result<Zval, Fault> {
    let function = ZendCallable::try_from_name(name);
    let function = function.map_err(|_| Fault::invalid(format!("PHP has no function {name}")))?;
    guarded(|| function.try_call(arguments))?.map_err(|error| Fault::invalid(format!("PHP's {name} failed: {error}")))
}

/// Calls a method; nothing if there is no such method.
pub fn method(object: &ZendObject, name: &str, arguments: Vec<&dyn IntoZvalDyn>) -> Result<Option<Zval>, Fault> {
    guarded(|| object.try_call_method(name, arguments).ok())
}

/// A value that is kept. Its destructor may be PHP code: it runs [`guarded`], whichever way the value is let go.
pub struct Guarded(Zval);

impl Guarded {
    /// What a reference points to may be set anew while it is read: the value itself is kept.
    pub fn of(value: &Zval) -> Self {
        Self(value.dereference().shallow_clone())
    }

    /// Lets go of it where the way goes on: not when the destructor threw.
    pub fn release(mut self) -> Result<(), Fault> {
        self.let_go()
    }

    /// The value itself, for the engine.
    pub fn take(mut self) -> Zval {
        std::mem::replace(&mut self.0, Zval::null())
    }

    fn let_go(&mut self) -> Result<(), Fault> {
        let value = std::mem::replace(&mut self.0, Zval::null());
        let has_end = value.is_object() || value.is_array() || value.is_reference();
        if has_end { guarded(move || drop(value)) } else { Ok(()) }
    }
}

impl From<Zval> for Guarded {
    fn from(value: Zval) -> Self {
        Self(value)
    }
}

impl Deref for Guarded {
    type Target = Zval;

    fn deref(&self) -> &Zval {
        &self.0
    }
}

impl DerefMut for Guarded {
    fn deref_mut(&mut self) -> &mut Zval {
        &mut self.0
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // An exception is pending in the engine, and comes before the error that is on its way.
        if let Err(Fault::BailedOut) = self.let_go() {
            bail_out_at_the_end();
        }
    }
}
