//! The programs that build for Windows, and that run what was built.

use std::{
    env,
    ffi::OsString,
    path::{Path, PathBuf},
    process::Command,
};

use crate::run::{Result, root};

/// The target of the builds.
pub(super) const TARGET: &str = "x86_64-pc-windows-gnu";

/// The program that runs programs for Windows.
pub(super) const WINE: &str = "wine";

/// Debian's cargo and compiler, which can build the standard library from its sources.
pub(super) fn cargo(folder: &Path) -> Command {
    let mut command = Command::new("/usr/bin/cargo");
    command.current_dir(root()).env("CARGO_TARGET_DIR", folder);
    // These variables name the toolchain of the cargo that runs xtask.
    command.env_remove("RUSTUP_TOOLCHAIN").env_remove("CARGO");
    command.env("RUSTC", "/usr/bin/rustc").env("RUSTC_BOOTSTRAP", "1");
    command.env("CARGO_TARGET_X86_64_PC_WINDOWS_GNU_LINKER", "x86_64-w64-mingw32-gcc");
    command.env("CARGO_TARGET_X86_64_PC_WINDOWS_GNU_RUNNER", WINE);
    command.envs(wine_settings(folder));
    // Nobody debugs these programs, and a dozen of them are linked.
    command.env("CARGO_PROFILE_TEST_DEBUG", "0").env("CARGO_PROFILE_DEV_DEBUG", "0");
    if let Some(path) = without_rustup() {
        command.env("PATH", path);
    }
    command
}

/// The settings of a Wine with a folder of its own, which prints no debug messages and asks no questions.
pub(super) fn wine_settings(folder: &Path) -> [(&'static str, OsString); 3] {
    let prefix = folder.join("wine").into_os_string();
    [
        ("WINEPREFIX", prefix),
        ("WINEDEBUG", "-all".into()),
        ("WINEDLLOVERRIDES", "mscoree,mshtml=".into()),
    ]
}

/// A command to which a program for Windows is added, and its arguments.
pub(super) fn by_wine(folder: &Path) -> Command {
    let mut command = Command::new(WINE);
    command.envs(wine_settings(folder));
    command
}

/// Ends all programs for Windows that a run has left: a broker waits for clients, and a program that was
/// ended has not ended those that it had started.
pub(super) fn end_all(folder: &Path) -> Result {
    let mut server = Command::new("wineserver");
    server.arg("--kill").envs(wine_settings(folder));
    // The exit code says whether anything was left, so it is no error.
    server.status().map(|_| ()).map_err(|error| format!("cannot start wineserver: {error}"))
}

/// The `PATH` without the programs of rustup, which do not know Debian's compiler.
fn without_rustup() -> Option<OsString> {
    let path = env::var_os("PATH")?;
    let folders: Vec<PathBuf> =
        env::split_paths(&path).filter(|folder| !folder.ends_with(".cargo/bin")).collect();
    env::join_paths(folders).ok()
}
