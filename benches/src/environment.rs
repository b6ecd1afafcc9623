//! Where and when the figures were measured: without this they mean nothing.

use std::{fs, process::Command, thread};

const LOCKFILE: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.lock"));

/// What the report says of the machine and the versions.
pub(crate) struct Environment {
    date: String,
    cpu: String,
    cpus: usize,
    kernel: String,
    load_before: String,
    load_after: String,
}

impl Environment {
    pub(crate) fn look() -> Self {
        let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let cpu = cpu.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease");
        Self {
            date: today(),
            cpu: cpu.map_or("unknown CPU", |(_, model)| model).to_owned(),
            cpus: thread::available_parallelism().map_or(1, usize::from),
            kernel: kernel.map_or_else(|_| "unknown".to_owned(), |text| text.trim().to_owned()),
            load_before: load(),
            load_after: String::new(),
        }
    }

    /// Notes the load after the measurement.
    pub(crate) fn look_again(&mut self) {
        self.load_after = load();
    }

    /// One paragraph, with these versions of the participants.
    pub(crate) fn describe(&self, versions: &[String]) -> String {
        let Self { date, cpu, cpus, kernel, load_before, load_after } = self;
        let rustc = env!("RUSTC_VERSION");
        format!(
            "{date}, {cpu}, {cpus} CPUs, {os} {kernel}, load average {load_before} before and \
             {load_after} after; {rustc}, {versions}.",
            os = std::env::consts::OS,
            versions = versions.join(", ")
        )
    }
}

/// The versions that the lockfile has of these crates.
pub(crate) fn versions(crates: &[&str]) -> Vec<String> {
    let version = |name: &str| {
        // If there are several versions, ours is the newest (key-mutex brings a dashmap of its own), and the
        // newest stands last.
        let (_, rest) = LOCKFILE.rsplit_once(&format!("\nname = \"{name}\"\nversion = \""))?;
        Some(rest.split_once('"')?.0)
    };
    crates
        .iter()
        .map(|name| format!("{name} {}", version(name).unwrap_or("of unknown version")))
        .collect()
}

fn today() -> String {
    let date = Command::new("date").args(["-u", "+%Y-%m-%d"]).output();
    let date = date.ok().and_then(|output| String::from_utf8(output.stdout).ok());
    date.map_or_else(|| "unknown date".to_owned(), |date| date.trim().to_owned())
}

fn load() -> String {
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    load.split(' ').next().filter(|load| !load.is_empty()).unwrap_or("unknown").to_owned()
}
