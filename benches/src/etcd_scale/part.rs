//! Small functions that the parts of the report share.

use std::fs;

use navlock::{EtcdOptions, LockManager, blocking::block_on};

/// A part of the report, for people and for docs/figures.md.
pub(super) type Part = (String, String);

pub(super) fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

#[expect(clippy::needless_pass_by_value, reason = "it is what `map_err` passes on")]
pub(super) fn failed(error: impl ToString) -> String {
    error.to_string()
}

pub(super) fn machine_here(endpoint: &str) -> Result<LockManager, String> {
    let options = EtcdOptions::new([endpoint]).keep_names(0);
    let reach = block_on(navlock::etcd(options)).map_err(failed)?;
    Ok(reach.lock_manager("bench"))
}

/// The CPU seconds that a process has used.
pub(super) fn cpu(pid: u32) -> Result<f64, String> {
    let mut all = 0.0;
    for thread in fs::read_dir(format!("/proc/{pid}/task")).map_err(failed)? {
        let path = thread.map_err(failed)?.path().join("schedstat");
        // A thread may have ended meanwhile.
        let Ok(text) = fs::read_to_string(path) else { continue };
        let nanoseconds = text.split(' ').next().and_then(|word| word.parse::<f64>().ok());
        all += nanoseconds.unwrap_or_default() / 1e9;
    }
    Ok(all)
}

/// Bytes of memory that a process has, including pages of its program.
pub(super) fn memory(pid: u32) -> Result<u64, String> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).map_err(failed)?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kib.map(|kib| kib << 10).ok_or_else(|| format!("process {pid} has no memory"))
}
