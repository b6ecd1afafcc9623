//! `cargo xtask cross`: builds and tests for other systems, as far as this machine can.
//!
//! - `musl`: the command as one static file, with etcd, TLS and PostgreSQL. It is run in an empty root: no C
//!   library, no shell. The suites of the library run as they are.
//! - `arm64`: the suites of the library for 64-bit ARM, with glibc and with musl, run by qemu.
//! - `macos`: all crates are checked by the compiler; no program for macOS can run here.
//!
//! Where rustup has a target's standard library, that library is used. Otherwise Debian's packages of Rust
//! build it from its sources; they are called by their own paths, beside the Rust of this machine. Zig is the
//! C compiler and the linker for all targets, and comes from Python's registry.

mod empty_root;
mod folder;
mod suites;
mod toolchain;

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use crate::run::{Result, run, said};

pub(crate) use self::{empty_root::try_out, toolchain::install};
use self::{folder::folder, toolchain::Toolchain};

const USAGE: &str = "\
usage: cargo xtask cross [musl] [arm64] [macos]     (without any, all)

  needs Debian's rustc-web, cargo-web and rust-web-src (or rustup's targets), qemu-user,
  libc6-arm64-cross, python3-venv, and crates and Zig from their registries: installs them if it is root";

/// The targets that are built and tested, by the names of Rust.
pub(crate) const MUSL: &str = if cfg!(target_arch = "aarch64") {
    "aarch64-unknown-linux-musl"
} else {
    "x86_64-unknown-linux-musl"
};
const ARM64: [&str; 2] = ["aarch64-unknown-linux-gnu", "aarch64-unknown-linux-musl"];
const MACOS: &str = "aarch64-apple-darwin";

pub(crate) fn cross(arguments: &[&str]) -> Result {
    let all = ["musl", "arm64", "macos"];
    let wanted = if arguments.is_empty() { &all[..] } else { arguments };
    if let Some(other) = wanted.iter().find(|wanted| !all.contains(wanted)) {
        return Err(format!("there is no `{other}`\n{USAGE}"));
    }
    println!("{USAGE}");
    let mut done = Vec::new();
    for &what in wanted {
        println!("\n=== cross {what}");
        let failed = |error| format!("cargo xtask cross {what} failed:\n{error}");
        done.push(match what {
            "musl" => musl().map_err(failed)?,
            "arm64" => arm64().map_err(failed)?,
            _ => macos().map_err(failed)?,
        });
    }
    println!("\n{}", done.join("\n"));
    Ok(())
}

fn musl() -> Result<String> {
    let rust = Toolchain::find(MUSL)?;
    let tests = suites::run(&rust, None, &[])?;
    let program = static_program_by(&rust)?;
    try_out(&program)?;
    Ok(format!("{MUSL}: {tests} tests passed, and the command runs in an empty root"))
}

/// The command as it is released: one static file, with all that a broker can serve. The file contains a list
/// of the crates that it is made of.
pub(crate) fn static_program() -> Result<PathBuf> {
    static_program_by(&Toolchain::find(MUSL)?)
}

fn static_program_by(rust: &Toolchain) -> Result<PathBuf> {
    let words = [
        "--release",
        "--package",
        "navlock-cli",
        "--features",
        "navlock-cli/etcd,navlock-cli/postgres,navlock-cli/tls",
    ];
    run(&mut rust.auditable("build", &words))?;
    let program = rust.target_folder().join("release/navlock");
    is_static(&program)?;
    Ok(program)
}

/// It is an error if the program loads other files.
fn is_static(program: &Path) -> Result {
    let said = Command::new("ldd")
        .arg(program)
        .output()
        .map_err(|error| format!("cannot start ldd: {error}"))?;
    let text = [said.stdout, said.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    println!("ldd: {}", text.trim());
    if text.contains("statically linked") || text.contains("not a dynamic executable") {
        Ok(())
    } else {
        Err(format!("{} is not static:\n{text}", program.display()))
    }
}

fn arm64() -> Result<String> {
    toolchain::install(&[("qemu-aarch64", "qemu-user")])?;
    let loader = Path::new("/usr/aarch64-linux-gnu/lib/ld-linux-aarch64.so.1");
    toolchain::install_files(&[(loader, "libc6-arm64-cross")])?;
    let mut done = Vec::new();
    for target in ARM64 {
        let rust = Toolchain::find(target)?;
        let mut runner = by_qemu();
        // The histories of the engine are one command shorter: longer ones had not ended after eight minutes.
        runner.env("NAVLOCK_EXHAUSTIVE_DEPTH", "4");
        if target == ARM64[0] {
            runner.env("QEMU_LD_PREFIX", "/usr/aarch64-linux-gnu");
        }
        let tests = suites::run(&rust, Some(&runner), &suites::NOT_UNDER_QEMU)?;
        let program = program_of(&rust, &runner)?;
        done.push(format!("{target}: {tests} tests passed under qemu; {program}"));
    }
    Ok(done.join("\n"))
}

/// Runs a program for 64-bit ARM, and the programs that it starts: some tests start their own program once
/// more. Those are started by the kernel, so the kernel is told to use qemu for them. It is told so within a
/// user namespace alone, which ends with the program, so nothing of this machine is changed.
fn by_qemu() -> Command {
    // The first bytes of such a program, and which of them count.
    const SCRIPT: &str = r#"set -eu
mount -t binfmt_misc none /proc/sys/fs/binfmt_misc
begins='\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00'
counts='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'
printf %s ':navlock:M::'$begins':'$counts':'$(command -v qemu-aarch64)':F' >/proc/sys/fs/binfmt_misc/register ||
  { echo 'Linux 6.7 or newer is needed, where a namespace of users has programs of its own kind' >&2; exit 1; }
exec "$0" "$@""#;
    let mut command = Command::new("unshare");
    command.args(["--map-root-user", "--mount", "sh", "-c", SCRIPT]);
    command
}

/// Builds the command, and has it say what it is.
fn program_of(rust: &Toolchain, runner: &Command) -> Result<String> {
    run(&mut rust.cargo("build", &["--package", "navlock-cli"]))?;
    let program = rust.target_folder().join("debug/navlock");
    said(suites::through(Some(runner), &program).arg("--version"))
}

fn macos() -> Result<String> {
    let rust = Toolchain::find(MACOS)?;
    let all = ["--workspace", "--all-features", "--all-targets"];
    // Benchmarks, torture and these commands are for Linux, so they are not checked.
    let but = ["navlock-benches", "navlock-torture", "xtask"];
    let but = but.iter().flat_map(|package| ["--exclude", package]);
    run(&mut rust.cargo("check", &all.into_iter().chain(but).collect::<Vec<_>>()))?;
    Ok(format!("{MACOS}: all crates and their tests are accepted by the compiler"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_target_is_refused() {
        assert!(cross(&["windows"]).unwrap_err().contains("there is no `windows`"));
    }

    #[test]
    fn a_program_that_loads_others_is_not_static() {
        assert!(is_static(&std::env::current_exe().unwrap()).unwrap_err().contains("not static"));
    }
}
