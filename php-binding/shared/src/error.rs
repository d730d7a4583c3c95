//! Errors as PHP exceptions: one class for each kind, all under `Duly\Exception\ExceptionInterface`, which says the kind in
//! `snake_case`, the operation, queue and job, and whether trying again can help; each with an SPL parent.

mod spelling;

use std::sync::atomic::{AtomicPtr, Ordering};

use duly::ErrorKind;
use ext_php_rs::builders::{ClassBuilder, ClassProperty, FunctionBuilder};
use ext_php_rs::convert::IntoZval;
use ext_php_rs::flags::{ClassFlags, DataType, MethodFlags, PropertyFlags};
use ext_php_rs::prelude::*;
use ext_php_rs::types::{ZendObject, Zval};
use ext_php_rs::zend::{ClassEntry, ExecuteData, ExecutorGlobals, ce};

use self::spelling::in_php_words;
use crate::method;

unsafe extern "C" {
    fn zend_update_property(
        scope: *mut ClassEntry,
        object: *mut ZendObject,
        name: *const std::ffi::c_char,
        length: usize,
        value: *mut Zval,
    );
    fn zend_read_property(
        scope: *mut ClassEntry,
        object: *mut ZendObject,
        name: *const std::ffi::c_char,
        length: usize,
        silent: bool,
        space: *mut Zval,
    ) -> *mut Zval;
    static spl_ce_RuntimeException: *const ClassEntry;
    static spl_ce_InvalidArgumentException: *const ClassEntry;
    static spl_ce_LengthException: *const ClassEntry;
    static spl_ce_LogicException: *const ClassEntry;
}

fn runtime_exception() -> &'static ClassEntry {
    // SAFETY: the engine sets it before any extension starts up and never changes it.
    unsafe { &*spl_ce_RuntimeException }
}

fn invalid_argument_exception() -> &'static ClassEntry {
    // SAFETY: as above.
    unsafe { &*spl_ce_InvalidArgumentException }
}

fn length_exception() -> &'static ClassEntry {
    // SAFETY: as above.
    unsafe { &*spl_ce_LengthException }
}

fn logic_exception() -> &'static ClassEntry {
    // SAFETY: as above.
    unsafe { &*spl_ce_LogicException }
}

/// `Duly\\Exception\\ExceptionInterface`, once it is registered.
static INTERFACE: AtomicPtr<ClassEntry> = AtomicPtr::new(std::ptr::null_mut());

fn interface() -> &'static ClassEntry {
    // SAFETY: `register_exceptions` registers the interface first, and the engine keeps it for the life of the process.
    unsafe { &*INTERFACE.load(Ordering::Relaxed) }
}

type Parent = (fn() -> &'static ClassEntry, &'static str);
const RUNTIME: Parent = (runtime_exception, "RuntimeException");
const INVALID_ARGUMENT: Parent = (invalid_argument_exception, "InvalidArgumentException");
const LENGTH: Parent = (length_exception, "LengthException");
const LOGIC: Parent = (logic_exception, "LogicException");

/// The class of each kind, without `Duly\Exception\` and `Exception`.
const CLASSES: &[(ErrorKind, &str, Parent)] = &[
    (ErrorKind::InvalidArgument, "InvalidArgument", INVALID_ARGUMENT),
    (ErrorKind::WrongServer, "WrongServer", INVALID_ARGUMENT),
    (ErrorKind::TooLarge, "TooLarge", LENGTH),
    (ErrorKind::Duplicate, "Duplicate", RUNTIME),
    (ErrorKind::LeaseLost, "LeaseLost", RUNTIME),
    (ErrorKind::Locked, "Locked", RUNTIME),
    (ErrorKind::NotFound, "NotFound", RUNTIME),
    (ErrorKind::CutOff, "CutOff", RUNTIME),
    (ErrorKind::JobFailed, "JobFailed", RUNTIME),
    (ErrorKind::NoResult, "NoResult", RUNTIME),
    (ErrorKind::Unreachable, "Unreachable", RUNTIME),
    (ErrorKind::Timeout, "Timeout", RUNTIME),
    (ErrorKind::AuthenticationFailed, "AuthenticationFailed", RUNTIME),
    (ErrorKind::PermissionDenied, "PermissionDenied", RUNTIME),
    (ErrorKind::ReadOnly, "ReadOnly", RUNTIME),
    (ErrorKind::Busy, "Busy", RUNTIME),
    (ErrorKind::StorageFull, "StorageFull", RUNTIME),
    (ErrorKind::QueueFull, "QueueFull", RUNTIME),
    (ErrorKind::EvictionPolicy, "EvictionPolicy", RUNTIME),
    (ErrorKind::Unsupported, "Unsupported", RUNTIME),
    (ErrorKind::NotDurable, "NotDurable", RUNTIME),
    (ErrorKind::Corrupt, "Corrupt", RUNTIME),
    (ErrorKind::FormatTooNew, "FormatTooNew", RUNTIME),
    (ErrorKind::Protocol, "Protocol", RUNTIME),
    (ErrorKind::Embedded, "Embedded", RUNTIME),
    (ErrorKind::Interrupted, "Interrupted", RUNTIME),
    (ErrorKind::Internal, "Internal", LOGIC),
];

fn class_name(short: &str) -> String {
    format!("Duly\\Exception\\{short}Exception")
}

/// Registers the exception classes when PHP loads the extension. They are plain PHP classes with four protected properties.
pub fn register_exceptions() -> ext_php_rs::error::Result<()> {
    let mut interface_class = ClassBuilder::new("Duly\\Exception\\ExceptionInterface")
        .flags(ClassFlags::Interface)
        .implements((ce::throwable, "Throwable"))
        .registration(|class, _| INTERFACE.store(class, Ordering::Relaxed));
    for (name, _, ty, nullable) in GETTERS {
        let method = FunctionBuilder::new_abstract(*name).returns(*ty, false, *nullable);
        interface_class = interface_class.method(method, MethodFlags::Public | MethodFlags::Abstract);
    }
    interface_class.register()?;
    CLASSES.iter().try_for_each(|(_, short, parent)| {
        let mut class = ClassBuilder::new(class_name(short)).extends(*parent).registration(|_, _| {});
        class = class.implements((interface, "Duly\\Exception\\ExceptionInterface"));
        for (name, ty) in PROPERTIES {
            class = class.property(ClassProperty {
                name: (*name).into(),
                flags: PropertyFlags::Protected,
                default: None,
                docs: &[],
                ty: Some(*ty),
                nullable: true,
                readonly: false,
                default_stub: None,
            });
        }
        for (name, handler, ty, nullable) in GETTERS {
            class =
                class.method(FunctionBuilder::new(*name, *handler).returns(*ty, false, *nullable), MethodFlags::Public);
        }
        class.register()
    })
}

const PROPERTIES: &[(&str, DataType)] = &[
    ("kind", DataType::String),
    ("transient", DataType::Bool),
    ("operation", DataType::String),
    ("queue", DataType::String),
    ("jobId", DataType::String),
    ("jobState", DataType::String),
    ("index", DataType::Long),
    ("pushed", DataType::object("Duly\\PushSummary")),
];

type Getter = (&'static str, extern "C" fn(&mut ExecuteData, &mut Zval), DataType, bool);
const GETTERS: &[Getter] = &[
    ("getKind", get_kind, DataType::String, false),
    ("isTransient", is_transient, DataType::Bool, false),
    ("getOperation", get_operation, DataType::String, true),
    ("getQueue", get_queue, DataType::String, true),
    ("getJobId", get_job_id, DataType::String, true),
    ("getJobState", get_job_state, DataType::String, true),
    ("getIndex", get_index, DataType::Long, true),
    ("getPushed", get_pushed, DataType::object("Duly\\PushSummary"), true),
];

fn read_property(call: &mut ExecuteData, answer: &mut Zval, name: &str) {
    let Some(object) = call.get_self() else { return };
    let mut space = Zval::new();
    // SAFETY: all pointers are of live values; the property is one of ours, and what is given is copied before it can go.
    let value = unsafe {
        zend_read_property(object.ce, object, name.as_ptr().cast(), name.len(), true, &raw mut space).as_ref()
    };
    if let Some(value) = value {
        *answer = value.dereference().shallow_clone();
    }
}

/// The kind that belongs to the class, of an exception that was made by `new` in PHP and has no properties set.
fn made_in_php(call: &mut ExecuteData, answer: &Zval) -> Option<ErrorKind> {
    if !answer.is_null() {
        return None;
    }
    let class = call.get_self()?.get_class_name().ok()?;
    Some(
        CLASSES.iter().find(|(_, short, _)| class_name(short) == class).map_or(ErrorKind::Internal, |(kind, ..)| *kind),
    )
}

extern "C" fn get_kind(call: &mut ExecuteData, answer: &mut Zval) {
    read_property(call, answer, "kind");
    if let Some(kind) = made_in_php(call, answer) {
        // Cannot fail: a short text.
        let _ = answer.set_string(kind.as_str(), false);
    }
}

extern "C" fn is_transient(call: &mut ExecuteData, answer: &mut Zval) {
    read_property(call, answer, "transient");
    if let Some(kind) = made_in_php(call, answer) {
        answer.set_bool(kind.is_transient());
    }
}

extern "C" fn get_operation(call: &mut ExecuteData, answer: &mut Zval) {
    read_property(call, answer, "operation");
}

extern "C" fn get_queue(call: &mut ExecuteData, answer: &mut Zval) {
    read_property(call, answer, "queue");
}

extern "C" fn get_job_id(call: &mut ExecuteData, answer: &mut Zval) {
    read_property(call, answer, "jobId");
}

extern "C" fn get_job_state(call: &mut ExecuteData, answer: &mut Zval) {
    read_property(call, answer, "jobState");
}

extern "C" fn get_index(call: &mut ExecuteData, answer: &mut Zval) {
    read_property(call, answer, "index");
}

extern "C" fn get_pushed(call: &mut ExecuteData, answer: &mut Zval) {
    read_property(call, answer, "pushed");
}

/// Why a method does not return normally.
#[derive(Debug)]
pub enum Fault {
    /// The core said so.
    Duly(duly::Error),
    /// The core said so, of a job of many.
    Pushing(Box<Pushing>),
    /// PHP code that was called on the way threw; its exception is pending in the engine.
    Thrown,
    /// PHP code that was called on the way ended the request (`exit`, a fatal error).
    BailedOut,
}

/// How far a push of many had come when one of its jobs, or a batch of them, was refused.
#[derive(Debug)]
pub struct Pushing {
    pub error: duly::Error,
    /// The index of that job among all, from 0; of a whole batch that of its first.
    pub index: i64,
    /// How the batches before it went: a `Duly\PushSummary`.
    pub pushed: Zval,
}

impl From<duly::Error> for Fault {
    fn from(error: duly::Error) -> Self {
        Self::Duly(error)
    }
}

impl Fault {
    /// A refused argument.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::Duly(duly::Error::new(ErrorKind::InvalidArgument, message.into()))
    }

    /// An argument was refused: says in which call.
    #[must_use]
    pub fn in_call(self, operation: &'static str, queue: &str) -> Self {
        match self {
            Self::Duly(error) => Self::Duly(error.during(operation).in_queue(queue)),
            Self::Pushing(mut pushing) => {
                pushing.error = pushing.error.during(operation).in_queue(queue);
                Self::Pushing(pushing)
            }
            other => other,
        }
    }

    /// As `in_call`, of a topic.
    #[must_use]
    pub fn of_topic(self, operation: &'static str, topic: &str) -> Self {
        match self {
            Self::Duly(error) => Self::Duly(error.during(operation).of_topic(topic)),
            other => other,
        }
    }
}

impl From<Fault> for PhpException {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Duly(error) => exception(&error, None),
            Fault::Pushing(pushing) => {
                let Pushing { error, index, pushed } = *pushing;
                exception(&error, Some((index, pushed)))
            }
            // What is pending in the engine stays; this one is never seen.
            Fault::Thrown => PhpException::default_pending(),
            // The frames of the method are still to be left; what is thrown here stands for it until then.
            Fault::BailedOut => {
                method::bail_out_at_the_end();
                PhpException::default_pending()
            }
        }
    }
}

trait Pending {
    fn default_pending() -> Self;
}

impl Pending for PhpException {
    fn default_pending() -> Self {
        Self::from_message("an exception is pending".to_owned())
    }
}

fn exception(error: &duly::Error, pushing: Option<(i64, Zval)>) -> PhpException {
    let short = CLASSES.iter().find(|(kind, ..)| *kind == error.kind()).map_or("Internal", |(_, short, _)| short);
    let message = in_php_words(&error.to_string(), error.operation()).replace('\0', "\\0");
    let Some(class) = ClassEntry::try_find(&class_name(short)) else {
        return PhpException::from_message(message);
    };
    let mut object = without_arguments(|| ZendObject::new(class));
    let optional = |value: Option<&str>| value.map(str::to_owned);
    set(&mut object, ce::exception(), "message", message.as_str());
    set(&mut object, class, "kind", error.kind().as_str());
    set(&mut object, class, "transient", error.is_transient());
    set(&mut object, class, "operation", optional(error.operation()));
    set(&mut object, class, "queue", optional(error.queue()));
    set(&mut object, class, "jobId", optional(error.job_id()));
    set(&mut object, class, "jobState", optional(error.job_state().map(duly::State::as_str)));
    if let Some((index, pushed)) = pushing {
        set(&mut object, class, "index", index);
        set(&mut object, class, "pushed", pushed);
    }
    let mut value = Zval::new();
    value.set_object(&mut object);
    PhpException::new(message, 0, class).with_object(value)
}

/// Makes an exception whose trace has no arguments, whatever `zend.exception_ignore_args` says: among them are passwords and
/// the data of jobs, and traces go into logs.
pub fn without_arguments<T>(make: impl FnOnce() -> T) -> T {
    let before = std::mem::replace(&mut ExecutorGlobals::get_mut().exception_ignore_args, true);
    let exception = make();
    ExecutorGlobals::get_mut().exception_ignore_args = before;
    exception
}

/// Sets a protected property, as a method of `scope` would.
fn set(object: &mut ZendObject, scope: &ClassEntry, name: &str, value: impl IntoZval) {
    // A value that cannot be made leaves null: the exception must be thrown all the same.
    let mut value = value.into_zval(false).unwrap_or_default();
    // SAFETY: all pointers are of live values, and the engine copies name and value.
    unsafe {
        zend_update_property(
            std::ptr::from_ref(scope).cast_mut(),
            object,
            name.as_ptr().cast(),
            name.len(),
            &raw mut value,
        );
    }
}
