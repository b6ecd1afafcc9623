//! Has the linker leave the functions of Node-API to whoever loads the addon, and the addon where
//! it is once it is loaded.

fn main() {
    napi_build::setup();
    // Node unloads an addon with the last worker that has it. The threads that keep connections may
    // still be in it then.
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    }
}
