//! Has the linker leave the functions of Node-API to whoever loads the addon.

fn main() {
    napi_build::setup();
}
