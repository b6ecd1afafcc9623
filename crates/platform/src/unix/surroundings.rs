//! The limits and settings that a process runs with, from whoever started it or from the system,
//! for people.

use std::path::Path;

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

/// What makes this process see other users, files or programs than the processes around it, or keeps it from
/// starting others: what it is, and what to do.
pub fn peculiarities() -> Vec<(&'static str, String)> {
    let linux = cfg!(target_os = "linux");
    let ours = crate::user::ours();
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let is_fake = std::env::var_os("FAKEROOTKEY").is_some();
    let sudo = std::env::var("SUDO_UID").ok().and_then(|user| user.parse().ok());
    let sudo = sudo.filter(|user: &u32| *user != ours);
    let fake = "fakeroot shows other owners of files than the kernel knows; run navlock outside of fakeroot";
    let proc = "/proc is not mounted, and navlock finds itself and other processes there; mount it \
                (mount -t proc proc /proc)";
    let null = "/dev/null is not there, and no broker can be started without it; make it \
                (mknod -m 666 /dev/null c 1 3)";
    let all = [
        ("fakeroot", is_fake.then(|| fake.to_owned())),
        (
            "user namespace",
            outside(&map, ours).map(|user| {
                format!(
                    "uid {user} is uid {ours} here, as under 'unshare -r', and has other locks and settings \
                     here; run navlock outside, or set NAVLOCK_SOCKET to the socket of uid {user}, which \
                     'navlock daemon status' shows outside"
                )
            }),
        ),
        (
            "sudo",
            sudo.map(|user| {
                format!(
                    "sudo runs this as uid {ours}, which has other locks and settings than uid {user}, and with \
                     a PATH of its own; for a lock of uid {user}, let navlock run sudo ('navlock run NAME sudo …'), and \
                     for one that both share use --system"
                )
            }),
        ),
        ("/proc", (linux && !Path::new("/proc/self").exists()).then(|| proc.to_owned())),
        ("/dev/null", (!Path::new("/dev/null").exists()).then(|| null.to_owned())),
    ];
    all.into_iter().filter_map(|(what, is)| Some((what, is?))).collect()
}

/// The user who is this one outside of the user namespace that has this map, if the namespace is one for a
/// single user. A larger map is that of a container, which has users of its own.
fn outside(map: &str, ours: u32) -> Option<u32> {
    let mut numbers = map.split_whitespace().map(|number| number.parse::<u32>().ok());
    let (inside, outside, count) = (numbers.next()??, numbers.next()??, numbers.next()??);
    let is_single = count == 1 && numbers.next().is_none();
    (is_single && inside == ours && outside != ours).then_some(outside)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_of_one_user_is_told_from_a_container_and_from_none() {
        assert_eq!(outside("         0       1000          1\n", 0), Some(1000));
        for map in
            ["0 0 4294967295", "0 0 1", "0 100000 65536", "0 1000 1\n1 100000 65536", "", "x y z"]
        {
            assert_eq!(outside(map, 0), None, "{map}");
        }
    }
}
