//! Workers under random kills, stops, full disks, clock steps and removed files.
//!
//! Real processes of `navlock` and of the library hold locks. While a process believes that it holds, it also
//! takes the kernel's own lock of a file. If it does not get that lock at once, it has found a violation,
//! unless docs/crashes.md allows the case. Eight workers lock names that all of them lock; four more take a
//! few names so often that they own them (`owner`). After each minute the disturbances pause, and everything
//! has to come to its end.
//!
//! A run needs Linux, root (for its own disk, which can be full, and for its own PID namespace, which has no
//! other processes), `unshare` of util-linux, and a C compiler. No process of a run outlives it.

#![forbid(unsafe_code)]

#[cfg(target_os = "linux")]
mod dice;
#[cfg(target_os = "linux")]
mod disturb;
#[cfg(target_os = "linux")]
mod disturbance;
#[cfg(target_os = "linux")]
mod etcd;
#[cfg(target_os = "linux")]
mod events;
#[cfg(target_os = "linux")]
mod history;
#[cfg(target_os = "linux")]
mod judge;
#[cfg(target_os = "linux")]
mod options;
#[cfg(target_os = "linux")]
mod oracle;
#[cfg(target_os = "linux")]
mod owner;
#[cfg(target_os = "linux")]
mod pause;
#[cfg(target_os = "linux")]
mod postgres;
#[cfg(target_os = "linux")]
mod processes;
#[cfg(target_os = "linux")]
mod proxy;
#[cfg(target_os = "linux")]
mod reasons;
#[cfg(target_os = "linux")]
mod record;
#[cfg(target_os = "linux")]
mod run;
#[cfg(target_os = "linux")]
mod sandbox;
#[cfg(target_os = "linux")]
mod witness;
#[cfg(target_os = "linux")]
mod worker;

use std::process::ExitCode;

#[cfg(not(target_os = "linux"))]
fn main() -> ExitCode {
    eprintln!("navlock-torture needs Linux: its namespaces, mounts and /proc");
    ExitCode::FAILURE
}

#[cfg(target_os = "linux")]
fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match words[..] {
        ["command", ref rest @ ..] => return worker::command(rest),
        ["helper", ref rest @ ..] => return worker::helper(rest),
        ["client", ref rest @ ..] => return worker::client(rest),
        ["owner", ref rest @ ..] => return owner::owner(rest),
        ["inside", ref rest @ ..] => inside(rest),
        ref rest => outside(rest),
    };
    done.unwrap_or_else(|message| {
        eprintln!("navlock-torture: {message}");
        ExitCode::FAILURE
    })
}

/// Starts itself again in namespaces of its own.
#[cfg(target_os = "linux")]
fn outside(words: &[&str]) -> Result<ExitCode, String> {
    use std::{env, process::Command};

    let options = options::Options::parse(words.iter().map(|&word| word.to_owned()))?;
    if !rustix::process::getuid().is_root() {
        return Err("this needs root, for a disk and a PID namespace of its own".to_owned());
    }
    if options.logs.exists() {
        return Err(format!("{} is there already; name another folder", options.logs.display()));
    }
    std::fs::create_dir_all(&options.logs)
        .map_err(|error| format!("cannot make {}: {error}", options.logs.display()))?;
    let program = env::current_exe().map_err(|error| error.to_string())?;
    let status = Command::new("unshare")
        .args(["--mount", "--pid", "--fork", "--kill-child", "--mount-proc"])
        .arg(program)
        .arg("inside")
        .args(words)
        .status()
        .map_err(|error| format!("cannot start unshare (of util-linux): {error}"))?;
    if !status.success() {
        return Ok(ExitCode::FAILURE);
    }
    if !options.keeps {
        std::fs::remove_dir_all(&options.logs)
            .map_err(|error| format!("cannot remove {}: {error}", options.logs.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The run itself, as the first process of its PID namespace: when it ends, the kernel ends all the others.
#[cfg(target_os = "linux")]
fn inside(words: &[&str]) -> Result<ExitCode, String> {
    let options = options::Options::parse(words.iter().map(|&word| word.to_owned()))?;
    let run = run::Run::new(&options).map_err(|error| format!("cannot begin: {error}"))?;
    Ok(if run.run() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
