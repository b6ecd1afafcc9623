//! A minimal Debian in a folder.
//!
//! A command in the machine runs in namespaces of its own for mounts and processes. However the command ends,
//! the kernel then removes both. So nothing of the host is mounted in the folder when the folder is removed.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::host::{apt_settings, debian_sources, environment};
use crate::run::{Result, root, said, show};

/// The home of the user to whom the checkout belongs, and the checkout, both within the machine.
const HOME: &str = "/home/ada";
const CHECKOUT: &str = "home/ada/navlock";

/// Mounts what a machine has, and Rust, then runs a command in the machine. Rust is mounted and not copied,
/// because it is as large as all the rest. The shell is the first process of its namespace, so it has to wait
/// for processes whose parents have ended. Therefore it does not become the command, but stays until the
/// command has ended.
const ENTER: &str = r#"set -eu
root=$1 rust=$2; shift 2
mount -t proc proc "$root/proc"
mount -t tmpfs -o mode=755 dev "$root/dev"
for node in null zero full random urandom tty; do
  : >"$root/dev/$node"; mount --bind "/dev/$node" "$root/dev/$node"
done
mkdir "$root/dev/pts" "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts "$root/dev/pts"
mount -t tmpfs -o mode=1777 shm "$root/dev/shm"
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"
ln -s /proc/self/fd/0 "$root/dev/stdin"
ln -s /proc/self/fd/1 "$root/dev/stdout"
ln -s /proc/self/fd/2 "$root/dev/stderr"
mkdir -p "$root/opt/rust"
mount --bind "$rust" "$root/opt/rust"
mount -o remount,bind,ro "$root/opt/rust"
chroot "$root" "$@"
exit $?
"#;

pub(super) struct Machine {
    folder: PathBuf,
    root: PathBuf,
    /// The folder of the toolchain.
    rust: PathBuf,
    node: PathBuf,
    npm: PathBuf,
    /// A signal has asked this program to end.
    is_interrupted: Arc<AtomicBool>,
}

impl Machine {
    /// Checks that each program that is needed is installed. Removes the folder that an earlier run has left.
    pub(super) fn prepare(folder: Option<&str>) -> Result<Self> {
        if said(Command::new("id").arg("-u"))? != "0" {
            return Err("this needs root, for mounts and a root directory of its own: \
                        run it with sudo, or as root in a container that may mount"
                .to_owned());
        }
        for (program, package) in [("debootstrap", "debootstrap"), ("unshare", "util-linux")] {
            said(Command::new(program).arg("--version")).map_err(|error| {
                format!("cannot start {program}: {error} (Debian: apt-get install {package})")
            })?;
        }
        let rust = PathBuf::from(said(Command::new("rustc").args(["--print", "sysroot"]))?);
        if rust == Path::new("/usr") {
            return Err("the Rust of this machine is not in a folder of its own, so it cannot be \
                        brought without the rest; use one of rustup's"
                .to_owned());
        }
        let node = PathBuf::from(said(Command::new("node").args(["-p", "process.execPath"]))?);
        let npm = node.ancestors().nth(2).unwrap_or(Path::new("/")).join("lib/node_modules/npm");
        if !npm.join("bin/npm-cli.js").exists() {
            return Err(format!("npm is not where Node's own is: {}", npm.display()));
        }
        let folder = folder.map_or_else(|| root().join("target/fresh"), PathBuf::from);
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let folder = folder.canonicalize().map_err(|error| error.to_string())?;
        remove_leftovers(&folder)?;

        let is_interrupted = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register(signal, Arc::clone(&is_interrupted))
                .map_err(|error| format!("cannot wait for signals: {error}"))?;
        }
        let root = folder.join(format!("root-{}", std::process::id()));
        fs::create_dir(&root).map_err(|error| format!("{}: {error}", root.display()))?;
        println!(
            "Rust: {}\nNode: {}\nthe machine: {}",
            rust.display(),
            node.display(),
            root.display()
        );
        Ok(Self { folder, root, rust, node, npm, is_interrupted })
    }

    /// Installs Debian, or copies an installed one if `base` is its folder.
    pub(super) fn install_debian(&self, base: Option<&str>) -> Result {
        let sources = debian_sources()?;
        let mut command = Command::new("cp");
        if let Some(base) = base {
            command.arg("-a").arg(Path::new(base).join(".")).arg(&self.root);
        } else {
            command = Command::new("unshare");
            command.args(["--mount", "--pid", "--fork", "--kill-child", "debootstrap"]);
            command.args(["--variant=minbase", &sources.suite]).arg(&self.root);
            command.arg(&sources.mirror);
        }
        self.supervise(&mut command)?;
        for (from, to) in sources.files {
            self.carry_over(&from, &to)?;
        }
        // Name servers and certificates, and how apt and npm reach their registries.
        for file in
            ["/etc/resolv.conf", "/etc/hosts", "/etc/ssl/certs/ca-certificates.crt", "/etc/npmrc"]
        {
            self.carry_over(Path::new(file), file)?;
        }
        for file in apt_settings() {
            let to = file.to_string_lossy().into_owned();
            self.carry_over(&file, &to)?;
        }
        self.enter(["apt-get", "update", "-qq"])
    }

    pub(super) fn bring_tools(&self) -> Result {
        let failed = |error: io::Error| error.to_string();
        let local = self.root.join("usr/local");
        fs::create_dir_all(local.join("lib/node_modules")).map_err(failed)?;
        let mut copy = Command::new("cp");
        self.supervise(copy.arg(&self.node).arg(local.join("bin/node")))?;
        let mut copy = Command::new("cp");
        self.supervise(copy.arg("-r").arg(&self.npm).arg(local.join("lib/node_modules/npm")))?;
        for (program, script) in [("npm", "npm-cli.js"), ("npx", "npx-cli.js")] {
            let script = format!("../lib/node_modules/npm/bin/{script}");
            std::os::unix::fs::symlink(script, local.join("bin").join(program)).map_err(failed)?;
        }
        self.enter(["useradd", "--create-home", "--shell", "/bin/sh", "ada"])?;
        let home = PathBuf::from(env::var_os("HOME").unwrap_or_default());
        let cargo = env::var_os("CARGO_HOME").map_or_else(|| home.join(".cargo"), PathBuf::from);
        self.carry_over(&cargo.join("config.toml"), &format!("{HOME}/.cargo/config.toml"))?;
        self.carry_over(&home.join(".npmrc"), &format!("{HOME}/.npmrc"))?;
        self.enter(["chown", "-R", "ada:ada", HOME])?;
        self.run("rustc --version && cargo --version && node --version && npm --version")
    }

    pub(super) fn check_out(&self, rev: &str) -> Result {
        let failed = |error: io::Error| error.to_string();
        let checkout = self.root.join(CHECKOUT);
        fs::create_dir_all(&checkout).map_err(failed)?;
        let archive = self.root.join("tmp/navlock.tar");
        let mut git = Command::new("git");
        git.args(["archive", "--format=tar", "--output"])
            .arg(&archive)
            .arg(rev)
            .current_dir(root());
        self.supervise(&mut git)?;
        let mut tar = Command::new("tar");
        self.supervise(tar.arg("-xf").arg(&archive).arg("-C").arg(&checkout))?;
        fs::remove_file(archive).map_err(failed)?;
        self.enter(["chown", "-R", "ada:ada", HOME])
    }

    /// A file of the checkout.
    pub(super) fn read(&self, file: &str) -> Result<String> {
        let path = self.root.join(CHECKOUT).join(file);
        fs::read_to_string(path).map_err(|error| format!("{file}: {error}"))
    }

    /// Installs packages, without those that they recommend.
    pub(super) fn install(&self, packages: &[String]) -> Result {
        let apt = ["apt-get", "install", "-qq", "--yes", "--no-install-recommends"];
        self.enter(apt.into_iter().chain(packages.iter().map(String::as_str)))
    }

    /// Runs a line in the checkout, as a user who is not root.
    pub(super) fn run(&self, line: &str) -> Result {
        let script = format!("cd {HOME}/navlock 2>/dev/null || cd; {line}");
        self.enter(["setpriv", "--reuid=ada", "--regid=ada", "--init-groups", "sh", "-c", &script])
    }

    /// Runs a command in the machine.
    fn enter<'a>(&self, arguments: impl IntoIterator<Item = &'a str>) -> Result {
        let arguments: Vec<&str> = arguments.into_iter().collect();
        let mut command = Command::new("unshare");
        command.args([
            "--mount",
            "--pid",
            "--ipc",
            "--fork",
            "--kill-child",
            "sh",
            "-c",
            ENTER,
            "sh",
        ]);
        command.arg(&self.root).arg(&self.rust);
        command.args(["/usr/bin/env", "-i"]).args(environment(HOME));
        command.args(&arguments);
        self.supervise_as(&mut command, &arguments.join(" "))
    }

    /// Copies a file of the host's settings into the machine, if the host has it.
    fn carry_over(&self, from: &Path, to: &str) -> Result {
        let to = self.root.join(to.trim_start_matches('/'));
        let failed = |error: io::Error| format!("cannot carry over {}: {error}", from.display());
        if !from.is_file() {
            return Ok(());
        }
        fs::create_dir_all(to.parent().expect("a file is in a folder")).map_err(failed)?;
        fs::write(to, fs::read(from).map_err(failed)?).map_err(failed)
    }

    fn supervise(&self, command: &mut Command) -> Result {
        let shown = show(command);
        self.supervise_as(command, &shown)
    }

    /// Runs a command to its end, or until a signal asks this program to end.
    fn supervise_as(&self, command: &mut Command, shown: &str) -> Result {
        let program = command.get_program().to_string_lossy().into_owned();
        let failed = |error: io::Error| format!("cannot start {program}: {error}");
        let mut child = command.stdin(Stdio::null()).spawn().map_err(failed)?;
        loop {
            if let Some(status) = child.try_wait().map_err(failed)? {
                return if status.success() {
                    Ok(())
                } else if self.is_interrupted.load(Ordering::Relaxed) {
                    Err("interrupted".to_owned())
                } else {
                    Err(format!("{status}: {shown}"))
                };
            }
            if self.is_interrupted.load(Ordering::Relaxed) {
                end(&mut child);
                return Err("interrupted".to_owned());
            }
            thread::sleep(Duration::from_millis(50));
        }
    }
}

/// Ends `unshare` and with it the first process of its namespace, with which all others end.
fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

impl Drop for Machine {
    fn drop(&mut self) {
        println!("\nremoving {}", self.root.display());
        if let Err(error) = remove(&self.root) {
            eprintln!("cannot remove {}: {error}", self.root.display());
        }
        // This fails, as it should, if another machine stands there.
        let _ = fs::remove_dir(&self.folder);
    }
}

/// Removes a machine's folder. Nothing is mounted there but in namespaces that have ended; to be sure
/// no other file system is entered.
fn remove(root: &Path) -> Result {
    let status = Command::new("rm").args(["-rf", "--one-file-system"]).arg(root).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("rm: {status}")),
        Err(error) => Err(error.to_string()),
    }
}

/// Removes the folders that killed runs have left: machines whose process is no more.
fn remove_leftovers(folder: &Path) -> Result {
    let failed = |error: io::Error| format!("{}: {error}", folder.display());
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(pid) = name.strip_prefix("root-") else { continue };
        if pid.parse::<u32>().is_ok() && !Path::new("/proc").join(pid).exists() {
            println!("removing {name}, which an earlier run has left");
            remove(&entry.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_that_a_dead_run_has_left_is_removed_and_others_stay() {
        let folder = root().join("target").join(format!("fresh-test-{}", std::process::id()));
        let mut ended = Command::new("true").spawn().unwrap();
        ended.wait().unwrap();
        let left = folder.join(format!("root-{}", ended.id()));
        let used = folder.join(format!("root-{}", std::process::id()));
        let other = folder.join("root-of-something");
        for path in [&left, &used, &other] {
            fs::create_dir_all(path.join("home")).unwrap();
        }
        remove_leftovers(&folder).unwrap();
        assert!(!left.exists() && used.exists() && other.exists());
        fs::remove_dir_all(folder).unwrap();
    }
}
