//! What stands between PHP and every method of duly: refuses arguments of a wrong type as PHP's own methods do, keeps arguments
//! out of traces, and ends the request behind a fatal error when no frame of Rust is left.

use std::cell::Cell;
use std::ffi::{CStr, CString, c_char};
use std::sync::atomic::{AtomicPtr, Ordering};

use ext_php_rs::class::RegisteredClass;
use ext_php_rs::ffi::{
    _ZEND_TYPE_NAME_BIT, IS_DOUBLE, IS_LONG, IS_OBJECT, IS_UNDEF, ZEND_ACC_PRIVATE, zend_function,
    zend_internal_arg_info, zend_throw_error, zend_type,
};
use ext_php_rs::types::array::Iter;
use ext_php_rs::types::{ZendClassObject, ZendHashTable, ZendObject, ZendStr, Zval};
use ext_php_rs::zend::{ClassEntry, ExecuteData, ExecutorGlobals, bailout};

use crate::convert::type_name;
use crate::error::without_arguments;

type Handler = unsafe extern "C" fn(*mut ExecuteData, *mut Zval);

unsafe extern "C" {
    fn zend_argument_type_error(number: u32, format: *const c_char, ...);
    fn zend_type_to_string(of: zend_type) -> *mut ZendStr;
    fn zend_add_attribute(
        attributes: *mut *mut ZendHashTable,
        name: *mut ZendStr,
        arguments: u32,
        flags: u32,
        offset: u32,
        line: u32,
    ) -> *mut std::ffi::c_void;
}

/// Parameters whose values no trace shows: passwords (also in a URL) and data.
const SENSITIVE: [&str; 9] = ["url", "password", "data", "raw", "result", "jobs", "messages", "headers", "error"];
const ZEND_ACC_PUBLIC: u32 = 1;
/// The attribute is of a class of the extension.
const ZEND_ATTRIBUTE_PERSISTENT: u32 = 1;

/// A method as it was registered.
struct Method {
    /// Where PHP keeps its parameters: the same in every copy of the function.
    parameters: usize,
    run: Handler,
    /// Of a constructor: whether the object was constructed before.
    is_constructed: Option<fn(&ZendObject) -> bool>,
}

/// All methods by their parameters, in order.
static METHODS: AtomicPtr<Vec<Method>> = AtomicPtr::new(std::ptr::null_mut());

thread_local! {
    static BAILED_OUT: Cell<bool> = const { Cell::new(false) };
}

/// A fatal error was caught in a method that runs: the request ends when it has returned.
pub fn bail_out_at_the_end() {
    BAILED_OUT.set(true);
}

/// The methods of the classes that are registered when the extension starts.
#[derive(Default)]
pub struct Methods(Vec<Method>);

impl Methods {
    /// Stands before the methods of this class from now on.
    pub fn guard<T: RegisteredClass>(&mut self, class: &mut ClassEntry) {
        let mut functions = Iter::new(&class.function_table);
        while let Some((_, function)) = functions.next_zval() {
            // SAFETY: the table of a class of an extension holds functions of extensions, which nobody else reads yet.
            let function = unsafe { &mut (*function.value.ptr.cast::<zend_function>()).internal_function };
            let Some(run) = function.handler.replace(guarded_method) else { continue };
            let is_constructor = class.constructor.cast() == std::ptr::from_mut(function);
            self.0.push(Method {
                parameters: function.arg_info as usize,
                run,
                is_constructed: is_constructor.then_some(is_constructed::<T>),
            });
            if is_constructor && T::constructor().is_none() {
                // Only duly makes these, and PHP says so itself.
                function.fn_flags = function.fn_flags & !ZEND_ACC_PUBLIC | ZEND_ACC_PRIVATE;
            }
            for number in 0..function.num_args {
                // SAFETY: PHP keeps as many parameters, with names that end with a zero.
                let name = unsafe { CStr::from_ptr((*function.arg_info.add(number as usize)).name) };
                if SENSITIVE.iter().any(|sensitive| name.to_bytes() == sensitive.as_bytes()) {
                    let attribute = ZendStr::new_interned("SensitiveParameter", true).into_raw();
                    // SAFETY: both are of the extension's life; parameters are numbered from 1.
                    unsafe {
                        let attributes = &raw mut function.attributes;
                        zend_add_attribute(attributes, attribute, 0, ZEND_ATTRIBUTE_PERSISTENT, number + 1, 0);
                    }
                }
            }
        }
    }

    /// All are known. A server that starts its PHP anew comes here again.
    pub fn set(mut self) {
        self.0.sort_by_key(|method| method.parameters);
        METHODS.store(Box::into_raw(Box::new(self.0)), Ordering::Release);
    }
}

fn is_constructed<T: RegisteredClass>(object: &ZendObject) -> bool {
    ZendClassObject::<T>::from_zend_obj(object).is_some()
}

fn method_of(call: &ExecuteData) -> Option<&'static Method> {
    // SAFETY: PHP calls with a function of ours; the list is never changed once it is set.
    let (function, methods) =
        unsafe { (call.func.as_ref()?.internal_function, METHODS.load(Ordering::Acquire).as_ref()?) };
    let at = methods.binary_search_by_key(&(function.arg_info as usize), |method| method.parameters).ok()?;
    methods.get(at)
}

/// What PHP calls. Nothing in it may need to be dropped where it may end by a long jump.
unsafe extern "C" fn guarded_method(call: *mut ExecuteData, answer: *mut Zval) {
    // SAFETY: PHP gives both for the time of the call.
    let Some(method) = method_of(unsafe { &*call }) else { return };
    // SAFETY: as above.
    if refuses(method, unsafe { &mut *call }) {
        return;
    }
    // SAFETY: it is the function that PHP would have called.
    unsafe { (method.run)(call, answer) };
    if BAILED_OUT.take() {
        // It held the place of what follows.
        drop(ExecutorGlobals::take_exception());
        // SAFETY: every frame of Rust between PHP and what failed has been left.
        unsafe { bailout() };
    }
}

fn refuses(method: &Method, call: &mut ExecuteData) -> bool {
    if let Some(is_constructed) = method.is_constructed
        && call.get_self().is_some_and(|object| is_constructed(object))
    {
        // Somebody may be in the middle of a call of what would be dropped.
        // SAFETY: the text ends with a zero and has no placeholder.
        unsafe { zend_throw_error(std::ptr::null_mut(), c"the object is constructed already".as_ptr()) };
        return true;
    }
    // SAFETY: PHP calls with a function of ours, and keeps `num_args` values behind the frame.
    let (function, given) = unsafe { (&(*call.func).internal_function, call.This.u2.num_args) };
    for number in 0..given.min(function.num_args) {
        // SAFETY: as above.
        let (parameter, value) = unsafe {
            let Some(value) = call.zend_call_arg(number as usize) else { continue };
            (&*function.arg_info.add(number as usize), value.dereference_mut())
        };
        if !fits(parameter, value) {
            refuse(number + 1, parameter, value);
            return true;
        }
    }
    false
}

/// As PHP's own methods with strict types: an int is a float, too.
#[allow(clippy::cast_precision_loss)] // as PHP itself does
fn fits(parameter: &zend_internal_arg_info, value: &mut Zval) -> bool {
    // SAFETY: every value has a type.
    let (mask, kind) = (parameter.type_.type_mask, u32::from(unsafe { value.u1.v.type_ }));
    if kind == IS_UNDEF || mask >> kind & 1 == 1 {
        return true;
    }
    if mask >> IS_DOUBLE & 1 == 1 && kind == IS_LONG {
        value.set_double(value.long().unwrap_or_default() as f64);
        return true;
    }
    if mask & _ZEND_TYPE_NAME_BIT != 0 && kind == IS_OBJECT {
        // SAFETY: PHP has made the name a string of its own when it registered the class. The classes are final.
        let class = unsafe { parameter.type_.ptr.cast::<ZendStr>().as_ref() };
        let name = value.object().and_then(|object| object.get_class_name().ok());
        return class.and_then(|class| class.as_str().ok()).is_some_and(|class| name.as_deref() == Some(class));
    }
    false
}

#[cold]
fn refuse(number: u32, parameter: &zend_internal_arg_info, value: &Zval) {
    let found = CString::new(type_name(value)).unwrap_or_default();
    without_arguments(|| {
        // SAFETY: the texts end with a zero, as the placeholders ask; PHP copies them, and the name of the type is ours.
        unsafe {
            let expected = zend_type_to_string(parameter.type_);
            let text = CString::new((*expected).as_bytes()).unwrap_or_default();
            ext_php_rs::ffi::ext_php_rs_zend_string_release(expected);
            zend_argument_type_error(number, c"must be of type %s, %s given".as_ptr(), text.as_ptr(), found.as_ptr());
        }
    });
}
