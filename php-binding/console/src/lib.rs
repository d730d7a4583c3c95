//! The PHP extension `duly_console`: the command `duly` and the page of `duly web`. A program that only pushes and works does without, and
//! saves their megabytes.
//!
//! It has an engine of its own, as PHP loads each extension by itself; what a client of the extension `duly` says of its server comes over
//! as a text.

// Its tests are in php-tests.
#![cfg(not(test))]
#![cfg_attr(windows, feature(abi_vectorcall))]
// Parameter names are PHP's named arguments, which are camelCase.
#![allow(non_snake_case)]
// PHP calls with many named arguments; the engine's macros take parameters by value.
#![allow(clippy::too_many_arguments, clippy::needless_pass_by_value)]
// The classes are public to PHP; Rust sees one private crate, and `#[php_module]` makes an undocumented function.
#![allow(unreachable_pub, missing_docs)]

mod console;
mod page;

use std::panic::catch_unwind;

use duly_php_shared::class;
use duly_php_shared::method::Methods;
use ext_php_rs::prelude::*;

/// What PHP asks for when it loads the extension.
#[php_module]
pub fn module(module: ModuleBuilder) -> ModuleBuilder {
    module.name("duly_console").version(env!("CARGO_PKG_VERSION")).startup_function(start_up)
}

extern "C" fn start_up(_type: i32, _module: i32) -> i32 {
    let registered = catch_unwind(|| {
        let mut methods = Methods::default();
        class::register::<console::Console>(&mut methods)?;
        class::register::<page::WebEngine>(&mut methods)?;
        methods.set();
        Ok::<_, ext_php_rs::error::Error>(())
    });
    i32::from(!matches!(registered, Ok(Ok(()))))
}
