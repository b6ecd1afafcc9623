//! Notes the compiler with which the figures are measured.

use std::{env, process::Command};

fn main() {
    let rustc = env::var_os("RUSTC").expect("cargo sets RUSTC for build scripts");
    let version = Command::new(rustc).arg("--version").output();
    let version = version.ok().and_then(|output| String::from_utf8(output.stdout).ok());
    println!("cargo::rustc-env=RUSTC_VERSION={}", version.as_deref().unwrap_or("rustc").trim());
    println!("cargo::rerun-if-changed=build.rs");
}
