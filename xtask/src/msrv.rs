//! `cargo xtask msrv`: the oldest Rust that is promised.
//!
//! The library (engine, core, the face with the reach of one machine) is built and tested with that release.
//! The face is also checked with all features, etcd among them. All this uses the lock file of the workspace.
//! The command needs a newer Rust, because a library that it draws with does. The toolchain is rustup's, if
//! rustup has the release. Otherwise it consists of Debian's packages `rustc-web` and `cargo-web`, unpacked
//! into `target/msrv`, so that nothing on the machine changes.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::run::{Result, root, run, said};

/// The release that `Cargo.toml` promises. Clippy holds our own code to it as well.
const RELEASE: &str = env!("CARGO_PKG_RUST_VERSION");

pub(crate) fn msrv(arguments: &[&str]) -> Result {
    if !arguments.is_empty() {
        return Err("usage: cargo xtask msrv".to_owned());
    }
    let folder = root().join("target/msrv");
    let old = Toolchain::of_rustup().map_or_else(|| Toolchain::of_debian(&folder), Ok)?;
    println!("{}", old.version()?);
    let library = ["-p", "navlock-engine", "-p", "navlock-core", "-p", "navlock"];
    let local = ["--features", "navlock/local"];
    // First as users build it who need the reach of one process only, then with all features.
    old.run(&[&["check"], &library[..]].concat(), &folder)?;
    old.run(&["check", "-p", "navlock", "--all-features"], &folder)?;
    old.run(&[&["test"], &library[..], &local].concat(), &folder)?;
    println!("\nRust {RELEASE} builds the library with all features, and passes its tests");
    Ok(())
}

/// Programs of one release of Rust, and where their libraries are.
struct Toolchain {
    programs: PathBuf,
    libraries: Vec<PathBuf>,
}

impl Toolchain {
    /// The toolchain of the release, if rustup has installed it.
    fn of_rustup() -> Option<Self> {
        let mut rustup = Command::new("rustup");
        let output = rustup.args(["run", RELEASE, "rustc", "--print", "sysroot"]).output().ok()?;
        let sysroot = String::from_utf8(output.stdout).ok()?;
        let programs = Path::new(sysroot.trim()).join("bin");
        (output.status.success() && programs.join("cargo").exists())
            .then_some(Self { programs, libraries: Vec::new() })
    }

    /// The toolchain in Debian's packages, together with those of their dependencies that are not installed.
    fn of_debian(folder: &Path) -> Result<Self> {
        let unpacked = folder.join(format!("debian-{RELEASE}"));
        let toolchain =
            Self { programs: unpacked.join("usr/bin"), libraries: libraries(&unpacked) };
        if toolchain.version().is_ok() {
            return Ok(toolchain);
        }
        let madison = said(Command::new("apt-cache").args(["madison", "rustc-web"])).map_err(|error| {
            format!(
                "neither rustup has Rust {RELEASE} (`rustup toolchain install {RELEASE}`) nor is \
                 there an apt to get it from: {error}"
            )
        })?;
        let version = version_of(&madison, RELEASE).ok_or_else(|| {
            format!(
                "neither rustup nor apt has Rust {RELEASE}; `rustup toolchain install {RELEASE}`"
            )
        })?;
        let wanted = ["rustc-web", "cargo-web", "libstd-rust-web-dev"];
        let mut simulated = Command::new("apt-get");
        simulated.args(["--simulate", "--no-install-recommends", "install"]);
        simulated.args(wanted.map(|package| format!("{package}={version}")));
        let packages = to_install(&said(&mut simulated)?);
        let debs = folder.join("debs");
        for path in [&debs, &unpacked] {
            let _ = fs::remove_dir_all(path);
            fs::create_dir_all(path).map_err(|error| format!("{}: {error}", path.display()))?;
        }
        run(Command::new("apt-get").args(["download", "-q"]).args(&packages).current_dir(&debs))?;
        for deb in fs::read_dir(&debs).map_err(|error| error.to_string())? {
            let deb = deb.map_err(|error| error.to_string())?.path();
            run(Command::new("dpkg-deb").arg("--extract").arg(deb).arg(&unpacked))?;
        }
        Ok(Self { libraries: libraries(&unpacked), ..toolchain })
    }

    fn version(&self) -> Result<String> {
        let version = said(&mut self.command("cargo"))?;
        Ok(format!("{version}, {}", said(&mut self.command("rustc"))?))
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.programs.join(program));
        command.arg("--version");
        self.set_up(&mut command);
        command
    }

    fn run(&self, arguments: &[&str], folder: &Path) -> Result {
        let mut command = Command::new(self.programs.join("cargo"));
        command.args(arguments).arg("--locked").current_dir(root());
        command.env("CARGO_TARGET_DIR", folder);
        // These variables name the toolchain of the cargo that runs xtask.
        command.env_remove("RUSTUP_TOOLCHAIN").env_remove("CARGO");
        command.env("RUSTC", self.programs.join("rustc"));
        command.env("RUSTDOC", self.programs.join("rustdoc"));
        self.set_up(&mut command);
        run(&mut command)
    }

    fn set_up(&self, command: &mut Command) {
        if let Ok(path) = std::env::join_paths(&self.libraries) {
            command.env("LD_LIBRARY_PATH", path);
        }
    }
}

/// The folders in which packages put libraries: each architecture has one of its own.
fn libraries(unpacked: &Path) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    for folder in ["usr/lib", "lib"] {
        let entries = fs::read_dir(unpacked.join(folder)).into_iter().flatten().flatten();
        folders.extend(entries.map(|entry| entry.path()).filter(|path| {
            path.file_name().is_some_and(|name| name.to_string_lossy().contains("-linux-"))
        }));
    }
    folders
}

/// The first version that is of this release, in the lines that `apt-cache madison` prints.
fn version_of(madison: &str, release: &str) -> Option<String> {
    let versions = madison.lines().filter_map(|line| line.split('|').nth(1));
    let is_of = |version: &&str| {
        version.strip_prefix(release).is_some_and(|rest| rest.starts_with(['.', '+', '-', '~']))
    };
    versions.map(str::trim).find(is_of).map(str::to_owned)
}

/// What `apt-get --simulate install` says would be installed, each with its version.
fn to_install(simulated: &str) -> Vec<String> {
    let packages = simulated.lines().filter_map(|line| {
        let (package, rest) = line.strip_prefix("Inst ")?.split_once(" (")?;
        // If another version is installed, it stands between the name and the parenthesis.
        let package = package.split(' ').next()?;
        Some(format!("{package}={}", rest.split(' ').next()?))
    });
    packages.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_package_of_the_release_itself_is_taken() {
        let madison = " rustc-web | 1.96.0+dfsg1-1 | http://a Packages\n \
                        rustc-web | 1.85.0+dfsg3-1~deb12u3 | http://a Packages\n";
        assert_eq!(version_of(madison, "1.85"), Some("1.85.0+dfsg3-1~deb12u3".to_owned()));
        assert_eq!(version_of(madison, "1.8"), None);
        assert_eq!(version_of("", "1.85"), None);
    }

    #[test]
    fn packages_that_apt_would_install_are_read_with_their_versions() {
        let simulated = "NOTE: x\nInst a (1:2.9-5 Debian:12/stable [amd64])\n\
                         Inst b [1.0] (2.0 Debian:12/stable [amd64])\nConf a (1:2.9-5 x)\n";
        assert_eq!(to_install(simulated), ["a=1:2.9-5", "b=2.0"]);
    }
}
