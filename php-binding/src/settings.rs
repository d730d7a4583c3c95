//! Settings of php.ini: `duly.url`, `duly.prefix` and `duly.deadline`, for what a program does not say itself.

use std::ffi::{CStr, c_char, c_int};
use std::time::Duration;

use duly::ClientBuilder;
use ext_php_rs::ffi::sapi_module;
use ext_php_rs::flags::IniEntryPermission;
use ext_php_rs::zend::{IniEntryDef, IniEntryDefs, ModuleEntry};
use ext_php_rs::{info_table_end, info_table_row, info_table_start};

use crate::convert::named;
use crate::error::Fault;

unsafe extern "C" {
    fn zend_ini_string(name: *const c_char, length: usize, original: c_int) -> *mut c_char;
    fn display_ini_entries(module: *mut ModuleEntry);
    fn php_printf(format: *const c_char, ...) -> usize;
}

/// A script that shares its server with others must not send their jobs elsewhere: those are for php.ini, and for
/// `php_admin_value` of php-fpm. How long a call may take is the script's own affair.
static ENTRIES: IniEntryDefs<4> = IniEntryDefs::new([
    masked(IniEntryDef::new(c"duly.url", c"", IniEntryPermission::System)),
    IniEntryDef::new(c"duly.prefix", c"", IniEntryPermission::System),
    IniEntryDef::new(c"duly.deadline", c"", IniEntryPermission::All),
    IniEntryDef::end(),
]);

/// Registers them when PHP starts.
pub fn register(module: i32) {
    IniEntryDef::register(ENTRIES.as_slice(), module);
}

/// What phpinfo says.
pub unsafe extern "C" fn show(module: *mut ModuleEntry) {
    info_table_start!();
    info_table_row!("version", env!("CARGO_PKG_VERSION"));
    info_table_end!();
    // SAFETY: PHP asks with the entry of this extension.
    unsafe { display_ini_entries(module) };
}

/// The URL of the server, if php.ini has one.
pub fn url() -> Result<Option<String>, Fault> {
    text(c"duly.url")
}

/// What keys begin with, if php.ini says so.
pub fn prefix() -> Result<Option<String>, Fault> {
    text(c"duly.prefix")
}

/// How long a call may take, if php.ini says so.
pub fn deadline() -> Result<Option<Duration>, Fault> {
    let Some(text) = text(c"duly.deadline")? else { return Ok(None) };
    let seconds = text.trim().parse().map_err(|_| {
        Fault::invalid(format!("duly.deadline in php.ini must be seconds, such as 2 or 0.5, not '{text}'"))
    })?;
    let deadline = duly::Millis::from_seconds(seconds).map_err(|error| named("duly.deadline in php.ini", &error))?;
    if deadline == duly::Millis::ZERO {
        return Err(Fault::invalid("duly.deadline in php.ini must be more than 0"));
    }
    Ok(Some(deadline.to_duration()))
}

/// How long a call may take when nobody says so: short where a request waits for it.
pub fn default_deadline() -> Duration {
    // SAFETY: PHP sets it before any extension starts, and the name is a text that ends with a zero.
    let sapi = unsafe { CStr::from_ptr(sapi_module.name) };
    if ["cli", "phpdbg", "embed", "micro"].iter().any(|name| sapi.to_bytes() == name.as_bytes()) {
        ClientBuilder::DEFAULT_DEADLINE
    } else {
        ClientBuilder::DEADLINE_IN_REQUESTS
    }
}

fn text(name: &CStr) -> Result<Option<String>, Fault> {
    // SAFETY: PHP gives a text that ends with a zero, which lives until it is changed, or none.
    let value = unsafe {
        let value = zend_ini_string(name.as_ptr(), name.count_bytes(), 0);
        if value.is_null() { None } else { Some(CStr::from_ptr(value).to_bytes().to_vec()) }
    };
    let Some(value) = value.filter(|value| !value.is_empty()) else { return Ok(None) };
    let name = name.to_string_lossy();
    String::from_utf8(value).map(Some).map_err(|_| Fault::invalid(format!("{name} in php.ini must be text in UTF-8")))
}

/// Its value may have a password in it, which phpinfo does not show.
const fn masked(mut entry: IniEntryDef) -> IniEntryDef {
    entry.displayer = Some(display_url);
    entry
}

unsafe extern "C" fn display_url(entry: *mut ext_php_rs::ffi::_zend_ini_entry, which: c_int) {
    const ORIGINAL: c_int = 1; // ZEND_INI_DISPLAY_ORIG
    // SAFETY: PHP gives its entry, whose values are strings of PHP or none.
    let value = unsafe {
        let entry = &*entry;
        let is_original = which == ORIGINAL && entry.modified != 0;
        if is_original { entry.orig_value } else { entry.value }.as_ref()
    };
    let value = value.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).unwrap_or_default();
    let shown = if value.is_empty() { "no value".to_owned() } else { without_password(&value) };
    let shown = std::ffi::CString::new(shown).unwrap_or_default();
    // SAFETY: both texts end with a zero.
    unsafe { php_printf(c"%s".as_ptr(), shown.as_ptr()) };
}

fn has_no_port(rest: &str) -> bool {
    let host = rest.split(['/', '?']).next().unwrap_or_default();
    host.rsplit_once(':').is_some_and(|(_, port)| !port.ends_with(']') && port.parse::<u16>().is_err())
}

/// `redis://user:***@host/0`. Nothing of what may be a password is left where the form is another.
fn without_password(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let shown = match rest.rsplit_once('@') {
        Some((_, host)) => format!("***@{host}"),
        // A URL whose host was forgotten: `user:password`.
        None if has_no_port(rest) => "***".to_owned(),
        None => rest.to_owned(),
    };
    // Also in the options: `?password=`.
    let shown = shown.split_once('?').map_or(shown.as_str(), |(shown, _)| shown);
    let escaped: String = shown.chars().filter(|char| !matches!(char, '<' | '>' | '&' | '"')).collect();
    if scheme.is_empty() { escaped } else { format!("{scheme}://{escaped}") }
}
