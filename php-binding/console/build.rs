//! Keeps the extension in memory once PHP has loaded it: at exit PHP unloads extensions, and the thread that renews leases may
//! still be running then.

fn main() {
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    }
}
