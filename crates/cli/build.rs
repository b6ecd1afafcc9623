//! Has the unwinder be part of the program where a library would be loaded for it alone.
//!
//! `navlock` runs for about as long as it takes to load a program. Rust's standard library takes the
//! unwinder from `libgcc_s`, which to find, map and initialise is a tenth of that; linked before it,
//! `libgcc_eh`, which is the same as an archive, leaves nothing to be taken. GCC installs both. Where it
//! cannot be told that they belong together, as with another linker or for another system, all is as
//! it would be.

use std::{env, path::Path, process::Command};

const ARCHIVE: &str = "libgcc_eh.a";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is = |name: &str, value: &str| env::var(name).is_ok_and(|found| found == value);
    let is_native = env::var_os("TARGET") == env::var_os("HOST");
    let is_glibc = is("CARGO_CFG_TARGET_OS", "linux") && is("CARGO_CFG_TARGET_ENV", "gnu");
    let is_optimized = !is("OPT_LEVEL", "0");
    // What Rust links with unless somebody says otherwise.
    let is_usual = env::var_os("RUSTC_LINKER").is_none();
    if !(is_native && is_glibc && is_optimized && is_usual) {
        return;
    }
    let asked = Command::new("cc").arg(format!("-print-file-name={ARCHIVE}")).output();
    let answer = asked.ok().and_then(|asked| String::from_utf8(asked.stdout).ok());
    // A compiler that does not find it says its name.
    let found = answer.as_deref().map(|answer| Path::new(answer.trim_end()));
    let Some(directory) = found.filter(|path| path.is_file()).and_then(Path::parent) else {
        return;
    };
    println!("cargo::rustc-link-search=native={}", directory.display());
    println!("cargo::rustc-link-lib=static:-bundle=gcc_eh");
}
