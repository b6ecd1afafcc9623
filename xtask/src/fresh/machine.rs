//! A minimal Debian in a folder.
//!
//! Each step runs in namespaces of its own for mounts and processes: when it ends, however it ends,
//! the kernel takes away both, and nothing of the host is mounted where the folder is removed.

use std::{
    env,
    ffi::OsString,
    fs, io,
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

use crate::run::{Result, root, said, show};

/// Where the machine has the project, and whose it is.
const HOME: &str = "/home/ada";
const CHECKOUT: &str = "home/ada/navlock";

/// Mounts what a machine has, and Rust, which is as large as all the rest and is not copied; then runs
/// a command in it. The shell stays, because it is the first
/// process of its namespace: it has to take leave of those that nobody else waits for.
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
    /// Somebody wants this to end.
    is_interrupted: Arc<AtomicBool>,
}

impl Machine {
    /// Sees that all is there that is needed. A folder that an earlier run has left is removed.
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

    /// Or copies one that was made so, if there is a folder with it.
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

    /// Runs a line in the checkout, as somebody who is not root.
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
        command.args(["/usr/bin/env", "-i"]).args(environment());
        command.args(&arguments);
        self.supervise_as(&mut command, &arguments.join(" "))
    }

    /// A file of the host's settings, if it is there.
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

    /// Runs a command to its end, or until this is interrupted.
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
        // Unless somebody else has something there.
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

/// What runs have left that were killed: machines whose process is no more.
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

/// What is set in the machine: how it speaks to the network as the host does, and nothing else.
fn environment() -> Vec<OsString> {
    let carried = |name: &str| {
        let lower = name.to_lowercase();
        lower.ends_with("_proxy")
            || [
                "cargo_http_",
                "cargo_net_",
                "cargo_profile_",
                "cargo_registries_",
                "cargo_build_jobs",
            ]
            .iter()
            .any(|prefix| lower.starts_with(prefix))
            || lower.starts_with("npm_config_")
            || ["SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "CURL_CA_BUNDLE"].contains(&name)
    };
    let mut environment: Vec<OsString> = [
        "PATH=/opt/rust/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "LANG=C.UTF-8",
        "DEBIAN_FRONTEND=noninteractive",
    ]
    .map(OsString::from)
    .into();
    environment.push(format!("HOME={HOME}").into());
    for (name, value) in env::vars_os() {
        if name.to_str().is_some_and(carried) {
            let mut pair = name;
            pair.push("=");
            pair.push(value);
            environment.push(pair);
        }
    }
    environment
}

/// From where Debian is installed, and how its packages are found afterwards.
pub(crate) struct Sources {
    pub(crate) suite: String,
    pub(crate) mirror: String,
    files: Vec<(PathBuf, String)>,
}

/// The same as on this machine, or what Debian says, if this is not one.
pub(crate) fn debian_sources() -> Result<Sources> {
    let mut files = Vec::new();
    for file in ["/etc/apt/sources.list", "/etc/apt/sources.list.d/debian.sources"] {
        if let Ok(text) = fs::read_to_string(file) {
            files.push((PathBuf::from(file), text));
        }
    }
    let found = files.iter().find_map(|(_, text)| source(text));
    let (mirror, suite) = found.ok_or(
        "cannot tell from where Debian is installed: neither \
         /etc/apt/sources.list nor sources.list.d/debian.sources names it",
    )?;
    let files = files.into_iter().map(|(file, _)| {
        let to = file.to_string_lossy().into_owned();
        (file, to)
    });
    Ok(Sources { suite, mirror, files: files.collect() })
}

/// The first mirror and its suite, in either form in which apt has them.
fn source(text: &str) -> Option<(String, String)> {
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next().map(str::to_owned)
    };
    if let (Some(mirror), Some(suite)) = (field("URIs:"), field("Suites:")) {
        return Some((mirror, suite));
    }
    let line = text.lines().find_map(|line| line.strip_prefix("deb "))?;
    let mut words = line.split_whitespace().skip_while(|word| !word.contains("://"));
    Some((words.next()?.to_owned(), words.next()?.to_owned()))
}

/// Those of apt's settings that say how it gets what it gets.
fn apt_settings() -> Vec<PathBuf> {
    let files = fs::read_dir("/etc/apt/apt.conf.d").into_iter().flatten().flatten();
    let is_wanted = |path: &PathBuf| {
        let text = fs::read_to_string(path).unwrap_or_default();
        text.lines().any(|line| line.trim_start().starts_with("Acquire"))
    };
    files.map(|file| file.path()).filter(is_wanted).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mirror_is_found_in_both_forms() {
        let stanza = "Types: deb\n# http://not.this/\nURIs: http://a/debian\nSuites: x x-updates\n\n\
                      URIs: http://b\nSuites: y\n";
        assert_eq!(source(stanza), Some(("http://a/debian".to_owned(), "x".to_owned())));
        let line = "# deb http://b y main\ndeb [signed-by=/k] http://a/debian x main\n";
        assert_eq!(source(line), Some(("http://a/debian".to_owned(), "x".to_owned())));
        assert_eq!(source("nothing\n"), None);
    }

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

    #[test]
    fn only_what_leads_to_the_network_is_carried_over() {
        let names: Vec<String> = environment()
            .into_iter()
            .filter_map(|pair| Some(pair.to_str()?.split_once('=')?.0.to_owned()))
            .collect();
        assert!(names.contains(&"PATH".to_owned()));
        assert!(!names.iter().any(|name| name == "CARGO_MANIFEST_DIR" || name == "CARGO"));
    }
}
