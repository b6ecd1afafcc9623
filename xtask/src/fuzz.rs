//! `cargo xtask fuzz`.

use std::{
    fs,
    process::{Command, Stdio},
};

use crate::run::{Result, cargo, root, run};

/// The programs in `fuzz/fuzz_targets`, each with a corpus in `fuzz/corpus`.
const TARGETS: [&str; 4] = ["to_daemon", "from_daemon", "sessions", "guests"];

/// Runs the coverage-guided fuzzer, each target for so many seconds.
pub(crate) fn fuzz(arguments: &[&str]) -> Result {
    let seconds = match arguments {
        [] => Ok(60),
        [seconds] => seconds.parse::<u32>().map_err(drop),
        _ => Err(()),
    };
    // To the fuzzer, zero seconds mean no limit.
    let seconds = seconds.ok().filter(|&seconds| seconds > 0);
    let seconds = seconds.ok_or("usage: cargo xtask fuzz [SECONDS]")?;
    if !is_there(&mut cargo(&["fuzz", "--version"])) {
        return Err("the fuzzer is not there: `cargo install cargo-fuzz`, and have a C++ compiler"
            .to_owned());
    }
    for target in TARGETS {
        // The fuzzer writes what it finds into this folder, and only reads the committed corpus.
        let found = root().join("target/fuzz-corpus").join(target);
        fs::create_dir_all(&found).map_err(|error| format!("{}: {error}", found.display()))?;
        run(cargo(&["fuzz", "run", target])
            .arg(&found)
            .arg(root().join("fuzz/corpus").join(target))
            // A daemon that ends does not free what its clients have, which the fuzzer would call a leak.
            .args(["--", &format!("-max_total_time={seconds}"), "-detect_leaks=0"])
            // Nor does it end the threads that it leaves to the end of its process.
            .env("ASAN_OPTIONS", "detect_leaks=0")
            // The instrumentation is unstable in Rust. With this variable, no nightly toolchain is needed.
            .env("RUSTC_BOOTSTRAP", "1"))?;
    }
    println!("\nno input broke the codec or a session; what is new stands in target/fuzz-corpus");
    Ok(())
}

fn is_there(command: &mut Command) -> bool {
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}
