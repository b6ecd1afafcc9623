//! The limits and settings that a process runs with, from whoever started it or from the system,
//! for people.

use rustix::process::{Resource, Rlimit, getrlimit};

/// The limits that a process may meet, and what they count.
const LIMITS: [(Resource, &str); 6] = [
    (Resource::Nofile, "open files"),
    (Resource::Cpu, "seconds of CPU time"),
    (Resource::As, "bytes of address space"),
    (Resource::Data, "bytes of data"),
    (Resource::Fsize, "bytes in a file"),
    (Resource::Nproc, "processes and threads of its user"),
];

/// What can change while the process runs, as names and values.
pub fn now() -> Vec<(String, String)> {
    let user = ("user".to_owned(), format!("uid {}", crate::user::ours()));
    let nice = crate::process::niceness();
    let nice = nice.map(|nice| ("nice".to_owned(), nice.to_string()));
    let limits = LIMITS.iter().filter_map(|&(resource, what)| {
        let Rlimit { current, .. } = getrlimit(resource);
        current.map(|most| format!("{most} {what}"))
    });
    let limits = limits.collect::<Vec<_>>().join(", ");
    let limits = ("limits".to_owned(), if limits.is_empty() { "none".to_owned() } else { limits });
    [user].into_iter().chain(nice).chain([limits]).chain(of_the_kernel()).collect()
}

/// What Linux tells in files.
fn of_the_kernel() -> Vec<(String, String)> {
    let read = |file: &str| std::fs::read_to_string(format!("/proc/self/{file}")).ok();
    // The fields behind the name, which may have anything in it; the policy is the 41st of all.
    let policy = read("stat").and_then(|stat| {
        let fields = stat.rsplit_once(") ")?.1;
        let policy = match fields.split(' ').nth(38)? {
            "0" => return None,
            "1" => "FIFO, real time",
            "2" => "round robin, real time",
            "3" => "batch",
            "5" => "idle",
            other => return Some(format!("policy {other}")),
        };
        Some(policy.to_owned())
    });
    let oom = read("oom_score_adj").map(|score| score.trim().to_owned());
    let oom = oom.filter(|score| score != "0");
    // The line of the unified hierarchy (version 2), or else all lines.
    let cgroup = read("cgroup").map(|text| {
        let unified = text.lines().find_map(|line| line.strip_prefix("0::"));
        unified.map_or_else(|| text.trim().replace('\n', ", "), str::to_owned)
    });
    let rows = [("scheduling", policy), ("OOM score adjustment", oom), ("control group", cgroup)];
    rows.into_iter().filter_map(|(what, is)| Some((what.to_owned(), is?))).collect()
}
