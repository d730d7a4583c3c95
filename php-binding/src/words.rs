//! The enums `Duly\State`, `Duly\OnDuplicate` and `Duly\Interruption`: the words that duly takes and gives, for those who like
//! the help of their editor. Where a word is taken, its enum is, too.

use std::ffi::{CStr, c_char};

use duly::worker::Interruption;
use ext_php_rs::ffi::IS_STRING;
use ext_php_rs::flags::ClassFlags;
use ext_php_rs::types::{ZendStr, Zval};
use ext_php_rs::zend::ClassEntry;

use crate::convert::{self, text, type_name};
use crate::error::Fault;

unsafe extern "C" {
    fn zend_register_internal_enum(
        name: *const c_char,
        backed_by: u8,
        methods: *const std::ffi::c_void,
    ) -> *mut ClassEntry;
    fn zend_enum_add_case_cstr(class: *mut ClassEntry, name: *const c_char, value: *mut Zval);
}

type Enum = (&'static CStr, &'static [(&'static CStr, &'static str)]);
const STATE: Enum =
    (c"Duly\\State", &[(c"Delayed", "delayed"), (c"Ready", "ready"), (c"Reserved", "reserved"), (c"Failed", "failed")]);
const ON_DUPLICATE: Enum = (c"Duly\\OnDuplicate", &[(c"Refuse", "refuse"), (c"Keep", "keep"), (c"Replace", "replace")]);
const INTERRUPTION: Enum = (
    c"Duly\\Interruption",
    &[
        (c"TimedOut", Interruption::TimedOut.as_str()),
        (c"LeaseLost", Interruption::LeaseLost.as_str()),
        (c"Stopped", Interruption::Stopped.as_str()),
    ],
);

/// Registers them when PHP starts.
pub fn register() {
    for (name, cases) in [STATE, ON_DUPLICATE, INTERRUPTION] {
        // SAFETY: PHP starts up; all texts end with a zero, and the words are strings of PHP for the extension's life.
        unsafe {
            let backed_by = u8::try_from(IS_STRING).unwrap_or_default();
            let class = zend_register_internal_enum(name.as_ptr(), backed_by, std::ptr::null());
            // As those that are written in PHP.
            (*class).ce_flags |= ClassFlags::Final.bits();
            for (case, word) in cases {
                let mut value = Zval::new();
                value.set_zend_string(ZendStr::new_interned(word, true));
                zend_enum_add_case_cstr(class, case.as_ptr(), &raw mut value);
                // PHP has it now.
                std::mem::forget(value);
            }
        }
    }
}

/// The word of an argument that is a text or a case of this enum.
fn word(name: &str, class: &CStr, value: &Zval) -> Result<String, Fault> {
    let value = value.dereference();
    if value.is_string() {
        return text(name, value);
    }
    let class = class.to_string_lossy();
    let case = value.object().filter(|object| object.get_class_name().is_ok_and(|name| name == class));
    // SAFETY: a case of an enum with values has its name and its value, in this order.
    let word = case.and_then(|case| unsafe { (*case.properties_table.as_ptr().add(1)).string() });
    word.ok_or_else(|| Fault::invalid(format!("{name} must be a {class} or its word, not {}", type_name(value))))
}

/// A state of jobs.
pub fn state(value: &Zval) -> Result<duly::State, Fault> {
    Ok(duly::State::parse(&word("state", STATE.0, value)?)?)
}

/// A state or a list of states.
pub fn states(name: &str, value: &Zval) -> Result<Vec<duly::State>, Fault> {
    let state = |value: &Zval| Ok(duly::State::parse(&word(name, STATE.0, value)?)?);
    match value.dereference().array() {
        Some(several) => convert::values(several).map(state).collect(),
        None => Ok(vec![state(value)?]),
    }
}

/// What a push does where there is a job with its id or key already.
pub fn on_duplicate(value: Option<&Zval>) -> Result<duly::OnDuplicate, Fault> {
    let Some(value) = value else { return Ok(duly::OnDuplicate::Refuse) };
    Ok(word("onDuplicate", ON_DUPLICATE.0, value)?.parse()?)
}
