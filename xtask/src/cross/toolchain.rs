//! Rust for another system: a standard library, a C compiler and a linker.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

use crate::run::{Result, root, run, said};

/// Releases that were seen to work here. Later ones may differ.
const ZIG: &str = "ziglang==0.17.1";
const ZIGBUILD: &str = "0.24.1";
const AUDITABLE: &str = "0.7.7";

/// Cargo for one target, with Zig.
pub(super) struct Toolchain {
    target: &'static str,
    /// Debian's cargo, which builds the standard library as well; `None`: this machine's cargo, which has
    /// that library.
    debian: Option<PathBuf>,
    /// Where the programs of Zig and cargo-zigbuild are.
    tools: [PathBuf; 2],
}

impl Toolchain {
    /// The toolchain for this target. Installs what is missing, if it runs as root.
    pub(super) fn find(target: &'static str) -> Result<Self> {
        let tools = tools()?;
        let libraries =
            said(Command::new("rustc").args(["--print", "target-libdir", "--target", target]));
        let has_them = libraries.is_ok_and(|folder| {
            let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
            files.into_iter().any(|file| file.file_name().to_string_lossy().starts_with("libstd-"))
        });
        if has_them {
            return Ok(Self { target, debian: None, tools });
        }
        let sources = Path::new("/usr/lib/rustlib/src/rust/library/std/Cargo.toml");
        let cargo = PathBuf::from("/usr/bin/cargo");
        install_files(&[
            (cargo.as_path(), "cargo-web"),
            (Path::new("/usr/bin/rustc"), "rustc-web"),
            (sources, "rust-web-src"),
        ])
        .map_err(|error| format!("{error}\n(or: rustup target add {target})"))?;
        Ok(Self { target, debian: Some(cargo), tools })
    }

    /// Where cargo puts what it builds for this target.
    pub(super) fn target_folder(&self) -> PathBuf {
        super::folder().join(self.target)
    }

    /// The subcommand `what` of cargo, with the arguments `words`.
    pub(super) fn cargo(&self, what: &str, words: &[&str]) -> Command {
        self.command(&["cargo-zigbuild"], what, words)
    }

    /// As [`Self::cargo`], but what is built contains the list of the crates that it is made of.
    pub(super) fn auditable(&self, what: &str, words: &[&str]) -> Command {
        self.command(&["cargo-auditable", "auditable"], what, words)
    }

    fn command(&self, program: &[&str], what: &str, words: &[&str]) -> Command {
        let [zig, tools] = &self.tools;
        let mut command = Command::new(tools.join(program[0]));
        command.args(&program[1..]);
        let path = env::var_os("PATH").unwrap_or_default();
        let path = [zig.clone(), tools.clone()].into_iter().chain(env::split_paths(&path));
        if let Ok(path) = env::join_paths(path) {
            command.env("PATH", path);
        }
        command.arg(if what == "build" { "zigbuild" } else { what });
        if let Some(cargo) = &self.debian {
            command.arg("-Zbuild-std");
            // With this variable, a released compiler accepts `-Zbuild-std`.
            command.env("RUSTC_BOOTSTRAP", "1").env("CARGO", cargo);
            command.env("RUSTC", "/usr/bin/rustc").env("RUSTDOC", "/usr/bin/rustdoc");
            command.env_remove("RUSTUP_TOOLCHAIN");
            // A standard library that is built here comes without a C library and without start-up objects;
            // Zig has both.
            if self.target.ends_with("-musl") {
                let variable = self.target.to_uppercase().replace('-', "_");
                let flags = format!("CARGO_TARGET_{variable}_RUSTFLAGS");
                command.env(flags, "-Clink-self-contained=no");
            }
        }
        command.args(["--locked", "--target", self.target]).args(words);
        command.env("CARGO_TARGET_DIR", super::folder()).current_dir(root());
        // Nobody debugs the programs, and each is run once.
        command.env("CARGO_PROFILE_TEST_DEBUG", "0").env("CARGO_PROFILE_DEV_DEBUG", "0");
        command.env("CARGO_PROFILE_TEST_OPT_LEVEL", "1").env("CARGO_INCREMENTAL", "0");
        command
    }
}

/// The folders of Zig, which has its own Python environment, and of the programs that have cargo use Zig.
fn tools() -> Result<[PathBuf; 2]> {
    let environment = super::folder().join("python");
    let python = environment.join("bin/python");
    if said(Command::new(&python).args(["-m", "ziglang", "version"])).is_err() {
        // Debian's Python comes without the modules that make an environment.
        if said(Command::new("python3").args(["-c", "import ensurepip, venv"])).is_err() {
            install_all(&["python3-venv"])?;
        }
        run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&environment))?;
        run(Command::new(&python).args(["-m", "pip", "install", "--quiet", ZIG]))?;
    }
    let tools = super::folder().join("tools");
    for (name, version) in [("cargo-zigbuild", ZIGBUILD), ("cargo-auditable", AUDITABLE)] {
        if !tools.join("bin").join(name).exists() {
            let mut install = crate::run::cargo(&["install", "--locked", "--debug", name]);
            install.args(["--version", version, "--root"]).arg(&tools);
            run(install.env("CARGO_TARGET_DIR", super::folder().join("tools-build")))?;
        }
    }
    Ok([environment.join("bin"), tools.join("bin")])
}

/// Installs the packages of Debian whose programs are not there.
pub(crate) fn install(wanted: &[(&str, &str)]) -> Result {
    let missing = wanted
        .iter()
        .filter(|(program, _)| Command::new(program).arg("--version").output().is_err());
    install_all(&missing.map(|&(_, package)| package).collect::<Vec<_>>())
}

/// Installs the packages of Debian whose files are not there.
pub(super) fn install_files(wanted: &[(&Path, &str)]) -> Result {
    let missing = wanted.iter().filter(|(file, _)| !file.exists());
    install_all(&missing.map(|&(_, package)| package).collect::<Vec<_>>())
}

fn install_all(packages: &[&str]) -> Result {
    if packages.is_empty() {
        return Ok(());
    }
    let packages = packages.join(" ");
    if said(Command::new("id").arg("-u"))? != "0" {
        return Err(format!("this needs packages of Debian's: apt-get install {packages}"));
    }
    let install =
        format!("apt-get update -qq && apt-get install -y -qq --no-install-recommends {packages}");
    run(Command::new("sh").args(["-c", &install]).env("DEBIAN_FRONTEND", "noninteractive"))
}
