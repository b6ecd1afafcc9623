//! What builds programs for Windows, and runs them.

use std::{
    env,
    ffi::OsString,
    path::{Path, PathBuf},
    process::Command,
};

use crate::run::{Result, root};

/// What is built for.
pub(super) const TARGET: &str = "x86_64-pc-windows-gnu";

/// What programs for Windows are started with.
pub(super) const WINE: &str = "wine";

/// Cargo with the compiler that has the sources of its library.
pub(super) fn cargo(folder: &Path) -> Command {
    let mut command = Command::new("/usr/bin/cargo");
    command.current_dir(root()).env("CARGO_TARGET_DIR", folder);
    // The cargo that runs this says what its own programs are.
    command.env_remove("RUSTUP_TOOLCHAIN").env_remove("CARGO");
    command.env("RUSTC", "/usr/bin/rustc").env("RUSTC_BOOTSTRAP", "1");
    command.env("CARGO_TARGET_X86_64_PC_WINDOWS_GNU_LINKER", "x86_64-w64-mingw32-gcc");
    command.env("CARGO_TARGET_X86_64_PC_WINDOWS_GNU_RUNNER", WINE);
    command.envs(wine_settings(folder));
    // Linked a dozen times, and looked at by nobody.
    command.env("CARGO_PROFILE_TEST_DEBUG", "0").env("CARGO_PROFILE_DEV_DEBUG", "0");
    if let Some(path) = without_rustup() {
        command.env("PATH", path);
    }
    command
}

/// Has a Wine of its own, which asks nobody anything.
pub(super) fn wine_settings(folder: &Path) -> [(&'static str, OsString); 3] {
    let prefix = folder.join("wine").into_os_string();
    [
        ("WINEPREFIX", prefix),
        ("WINEDEBUG", "-all".into()),
        ("WINEDLLOVERRIDES", "mscoree,mshtml=".into()),
    ]
}

/// A program for Windows.
pub(super) fn by_wine(folder: &Path) -> Command {
    let mut command = Command::new(WINE);
    command.envs(wine_settings(folder));
    command
}

/// Ends all programs for Windows that are left of what was run: a broker that was started waits for clients, and whoever
/// was ended himself has ended nobody.
pub(super) fn end_all(folder: &Path) -> Result {
    let mut server = Command::new("wineserver");
    server.arg("--kill").envs(wine_settings(folder));
    // It says by its exit code whether anything was left.
    server.status().map(|_| ()).map_err(|error| format!("cannot start wineserver: {error}"))
}

/// The `PATH` without the programs of rustup, which know nothing of that compiler.
fn without_rustup() -> Option<OsString> {
    let path = env::var_os("PATH")?;
    let folders: Vec<PathBuf> =
        env::split_paths(&path).filter(|folder| !folder.ends_with(".cargo/bin")).collect();
    env::join_paths(folders).ok()
}
