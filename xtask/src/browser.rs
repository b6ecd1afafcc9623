//! `cargo xtask browser`: the backend suite on the locks of a browser.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::run::{Result, cargo, root, run, said};

const TARGET: &str = "wasm32-unknown-unknown";

/// The programs that are taken from Debian if they are missing: a program, its package, and what it is for.
const PROGRAMS: [(&str, &str, &str); 2] = [
    ("node", "nodejs", "it serves the page of the tests"),
    ("chromium", "chromium", "its locks are what is tested"),
];

/// Files of Debian's compiler and linker, each with its package. That compiler builds the standard library
/// for other targets from source.
const DEBIAN: [(&str, &str); 4] = [
    ("/usr/bin/rustc", "rustc-web"),
    ("/usr/bin/cargo", "cargo-web"),
    ("/usr/lib/rustlib/src/rust/library/std/Cargo.toml", "rust-web-src"),
    ("/usr/bin/wasm-ld-19", "lld-19"),
];

/// Builds the suite for a page, has wasm-bindgen bind it, and runs it in headless Chromium, which prints the
/// outcome of each test. An outcome that is not the expected one is an error
/// (`crates/browser/tests/suite/differs.mjs`). With `--no-run`, the suite is only built.
pub(crate) fn browser(arguments: &[&str]) -> Result {
    let (options, words): (Vec<&str>, Vec<&str>) =
        arguments.iter().partition(|word| word.starts_with('-'));
    if let Some(option) = options.iter().find(|option| **option != "--no-run") {
        return Err(format!(
            "unknown option {option}\nusage: cargo xtask browser [--no-run] [WORD…]"
        ));
    }
    println!(
        "needs Rust's standard library for {TARGET} (rustup's, or Debian's rustc-web, cargo-web, rust-web-src and \
         lld-19), wasm-bindgen (which cargo installs below target), Node and Chromium; installs as root what \
         Debian has of these"
    );
    let folder = root().join("target/browser");
    let toolchain = Toolchain::find();
    toolchain.install()?;

    // As programs build it that depend on the crate `navlock`.
    run(toolchain.cargo("check", &folder).args(["--package", "navlock", "--features", "browser"]))?;
    let mut build = toolchain.cargo("build", &folder);
    run(build.args(["--package", "navlock-browser", "--example", "suite"]))?;

    let suite = folder.join("suite");
    let wasm = folder.join(TARGET).join("debug/examples/suite.wasm");
    let mut bind = Command::new(wasm_bindgen(&folder)?);
    bind.args(["--target", "web", "--no-typescript", "--out-dir"]).arg(&suite).arg(wasm);
    run(&mut bind)?;
    if !options.is_empty() {
        return Ok(());
    }

    let mut node = Command::new("node");
    node.arg("crates/browser/tests/suite/chromium.mjs").arg(suite).args(words);
    run(node.current_dir(root()))
}

/// The toolchain that builds for a page.
enum Toolchain {
    /// The toolchain of this machine, which has the standard library for the target.
    Ours,
    /// Debian's, which builds the standard library from its source.
    Debian,
}

impl Toolchain {
    fn find() -> Self {
        let mut rustc = Command::new("rustc");
        let library = said(rustc.args(["--print", "target-libdir", "--target", TARGET]));
        let has = library.is_ok_and(|library| Path::new(&library).exists());
        if has { Self::Ours } else { Self::Debian }
    }

    /// Installs what is missing if it runs as root. Otherwise the error says what to install.
    fn install(&self) -> Result {
        let mut missing: Vec<_> = PROGRAMS
            .into_iter()
            .filter(|(program, _, _)| said(Command::new(program).arg("--version")).is_err())
            .map(|(program, package, what_for)| (package, format!("{program}: {what_for}")))
            .collect();
        if let Self::Debian = self {
            let files = DEBIAN.into_iter().filter(|(file, _)| !Path::new(file).exists());
            missing.extend(files.map(|(file, package)| {
                (package, format!("{file}: rustup has no standard library for {TARGET} here"))
            }));
        }
        if missing.is_empty() {
            return Ok(());
        }
        let packages = missing.iter().map(|(package, _)| *package);
        if said(Command::new("id").arg("-u"))? == "0" {
            run(Command::new("apt-get").args(["update", "-q"]))?;
            let mut install = Command::new("apt-get");
            install.args(["install", "-q", "--yes", "--no-install-recommends"]).args(packages);
            return run(install.env("DEBIAN_FRONTEND", "noninteractive"));
        }
        let packages = packages.collect::<Vec<_>>().join(" ");
        let missing: Vec<_> = missing.into_iter().map(|(_, what)| what).collect();
        Err(format!(
            "this is missing:\n  {}\n(`rustup target add {TARGET}` where rustup is, or on Debian: apt-get install \
             {packages})",
            missing.join("\n  ")
        ))
    }

    /// Cargo with this subcommand, for a page.
    fn cargo(&self, subcommand: &str, folder: &Path) -> Command {
        let mut command = match self {
            Self::Ours => cargo(&[subcommand]),
            Self::Debian => {
                let mut command = Command::new("/usr/bin/cargo");
                command.args([subcommand, "-Zbuild-std=std,panic_abort"]).current_dir(root());
                command.env("RUSTC_BOOTSTRAP", "1").env("RUSTC", "/usr/bin/rustc");
                command.env("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER", "/usr/bin/wasm-ld-19");
                // These variables name the toolchain of the cargo that runs xtask.
                command.env_remove("RUSTUP_TOOLCHAIN").env_remove("CARGO");
                command
            }
        };
        command.args(["--target", TARGET]).env("CARGO_TARGET_DIR", folder);
        command
    }
}

/// The path of wasm-bindgen, in the version that `Cargo.lock` names for the library: the two must be equal.
fn wasm_bindgen(folder: &Path) -> Result<PathBuf> {
    let lock = root().join("Cargo.lock");
    let lock = fs::read_to_string(&lock).map_err(|error| format!("{}: {error}", lock.display()))?;
    let version = version_of(&lock, "wasm-bindgen")
        .ok_or("Cargo.lock does not have wasm-bindgen: run `cargo update --workspace`")?;
    let tools = folder.join("tools");
    let program = tools.join("bin/wasm-bindgen");
    for program in [program.as_path(), Path::new("wasm-bindgen")] {
        let has = said(Command::new(program).arg("--version"));
        if has.is_ok_and(|has| has.split(' ').nth(1) == Some(version)) {
            return Ok(program.to_owned());
        }
    }
    let mut install = cargo(&["install", "wasm-bindgen-cli", "--debug", "--version", version]);
    run(install.arg("--root").arg(&tools).env("CARGO_TARGET_DIR", tools.join("target")))?;
    Ok(program)
}

/// The version of a package in a `Cargo.lock`.
fn version_of<'a>(lock: &'a str, package: &str) -> Option<&'a str> {
    let (_, rest) = lock.split_once(&format!("\nname = \"{package}\"\nversion = \""))?;
    Some(rest.split_once('"')?.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_of_a_package_is_that_of_no_other() {
        let lock = "[[package]]\nname = \"wasm-bindgen-macro\"\nversion = \"1\"\n\n\
                    [[package]]\nname = \"wasm-bindgen\"\nversion = \"0.2.130\"\n";
        assert_eq!(version_of(lock, "wasm-bindgen"), Some("0.2.130"));
        assert_eq!(version_of(lock, "wasm"), None);
    }
}
