//! Registers the classes that have an object of Rust behind them, as PHP's own final classes with readonly properties are: typed
//! for reflection, an `Error` at each write, no dynamic properties.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

use ext_php_rs::builders::ClassBuilder;
use ext_php_rs::class::RegisteredClass;
use ext_php_rs::ffi::{_ZEND_TYPE_NAME_BIT, _ZEND_TYPE_NULLABLE_BIT, zend_property_info, zend_throw_error, zend_type};
use ext_php_rs::flags::{ClassFlags, DataType, PropertyFlags};
use ext_php_rs::types::{ZendObject, ZendStr, Zval};
use ext_php_rs::zend::{ClassEntry, ExecutorGlobals, ZendObjectHandlers, ZendType};

use crate::method::Methods;

unsafe extern "C" {
    fn zend_declare_typed_property(
        class: *mut ClassEntry,
        name: *mut ZendStr,
        default: *mut Zval,
        access: c_int,
        doc_comment: *mut ZendStr,
        of: zend_type,
    ) -> *mut zend_property_info;
}

/// The class that was registered last.
static REGISTERED: AtomicPtr<ClassEntry> = AtomicPtr::new(std::ptr::null_mut());

/// Registers one class, and notes its methods.
pub fn register<T: RegisteredClass>(methods: &mut Methods) -> ext_php_rs::error::Result<()> {
    let mut class = ClassBuilder::new(T::CLASS_NAME);
    for (method, flags) in T::method_builders() {
        class = class.method(method, flags);
    }
    let keep = |class: &'static mut ClassEntry, parameters| {
        REGISTERED.store(class, Ordering::Relaxed);
        T::get_metadata().set_ce(class);
        T::get_metadata().set_arg_info(parameters);
    };
    let flags = T::FLAGS | ClassFlags::NoDynamicProperties;
    class.flags(flags).object_override::<T>().registration(keep).docs(T::DOC_COMMENTS).register()?;
    let metadata = std::ptr::from_ref(T::get_metadata());
    let offset = std::ptr::from_ref(T::get_metadata().handlers()).addr() - metadata.addr();
    // SAFETY: PHP starts up: there is no object of the class and no other thread that could use it. The handlers are in a cell
    // of the metadata, through which they may be changed.
    let (class, handlers) = unsafe {
        let handlers = metadata.cast_mut().byte_add(offset).cast::<ZendObjectHandlers>();
        (&mut *REGISTERED.load(Ordering::Relaxed), &mut *handlers)
    };
    for property in T::get_metadata().all_properties() {
        declare(class, property.name, property.ty, property.nullable)?;
    }
    refuse_writes(handlers);
    methods.guard::<T>(class);
    Ok(())
}

/// The value is Rust's; what PHP knows of is its type.
fn declare(class: &mut ClassEntry, name: &str, of: DataType, nullable: bool) -> ext_php_rs::error::Result<()> {
    const UNDEFINED: u32 = 0;
    const READONLY: u32 = 1 << 7; // ZEND_ACC_READONLY
    let mut default = Zval::new();
    default.u1.type_info = UNDEFINED;
    let of = match of.class_name() {
        Some(class) => zend_type {
            ptr: ZendStr::new_interned(class, true).into_raw().cast::<c_void>(),
            type_mask: _ZEND_TYPE_NAME_BIT | if nullable { _ZEND_TYPE_NULLABLE_BIT } else { 0 },
        },
        None => {
            ZendType::empty_from_type(of, false, false, nullable).ok_or(ext_php_rs::error::Error::ZvalConversion(of))?
        }
    };
    let access = PropertyFlags::Public.bits() | READONLY;
    // SAFETY: the class is complete but for its properties; names and types are strings of PHP for the extension's life.
    unsafe {
        let name = ZendStr::new_interned(name, true).into_raw();
        zend_declare_typed_property(class, name, &raw mut default, access.try_into()?, std::ptr::null_mut(), of);
    }
    Ok(())
}

fn refuse_writes(handlers: &mut ZendObjectHandlers) {
    handlers.write_property = Some(write_property);
    handlers.get_property_ptr_ptr = Some(get_property_ptr_ptr);
    handlers.unset_property = Some(unset_property);
}

/// What PHP knows of a property with this name.
///
/// # Safety
///
/// Both must be live.
unsafe fn property<'a>(object: *mut ZendObject, name: *mut ZendStr) -> Option<&'a zend_property_info> {
    // SAFETY: the class of a live object is live, and its table holds descriptions of properties.
    unsafe {
        let name = (*name).as_str().ok()?;
        (*(*object).ce).properties_info.get(name)?.value.ptr.cast::<zend_property_info>().as_ref()
    }
}

/// # Safety
///
/// Both must be live.
unsafe fn refuse(object: *mut ZendObject, name: *mut ZendStr, verb: &str) {
    // SAFETY: as the caller says.
    let text = unsafe {
        let what = if property(object, name).is_some() { "readonly" } else { "dynamic" };
        let verb = if what == "dynamic" && verb == "modify" { "create" } else { verb };
        let class = (*(*object).ce).name().unwrap_or_default().to_owned();
        format!("Cannot {verb} {what} property {class}::${}", String::from_utf8_lossy((*name).as_bytes()))
    };
    let text = std::ffi::CString::new(text).unwrap_or_default();
    // SAFETY: both texts end with a zero, and PHP copies them.
    unsafe { zend_throw_error(std::ptr::null_mut(), c"%s".as_ptr(), text.as_ptr()) };
}

unsafe extern "C" fn write_property(
    object: *mut ZendObject,
    name: *mut ZendStr,
    value: *mut Zval,
    _cache: *mut *mut c_void,
) -> *mut Zval {
    // SAFETY: PHP gives live values.
    unsafe { refuse(object, name, "modify") };
    value
}

unsafe extern "C" fn unset_property(object: *mut ZendObject, name: *mut ZendStr, _cache: *mut *mut c_void) {
    // SAFETY: PHP gives live values.
    unsafe { refuse(object, name, "unset") };
}

/// PHP wants to write into a property: an element of an array, `++`, a reference. Into an object that is in it, it may.
unsafe extern "C" fn get_property_ptr_ptr(
    object: *mut ZendObject,
    name: *mut ZendStr,
    _how: c_int,
    cache: *mut *mut c_void,
) -> *mut Zval {
    // SAFETY: PHP gives live values, and a cache of three pointers or none.
    unsafe {
        if property(object, name).is_some_and(|property| property.type_.type_mask & _ZEND_TYPE_NAME_BIT != 0) {
            if !cache.is_null() {
                cache.add(2).write(std::ptr::null_mut());
            }
            return std::ptr::null_mut();
        }
        refuse(object, name, "modify");
        &raw mut ExecutorGlobals::get_mut().error_zval
    }
}
