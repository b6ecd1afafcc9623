//! Has the linker leave the functions of Node-API to whoever loads the addon.

use std::env;

fn main() {
    println!("cargo:rustc-check-cfg=cfg(looks_up_node_api)");
    if env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("windows") {
        // A library of Windows names the program that has what it needs, and ours is loaded by several. What
        // `napi_build` would do instead wants a `libnode.dll` to link with.
        println!("cargo:rustc-cfg=looks_up_node_api");
        return;
    }
    napi_build::setup();
}
