//! What a broker inherits from the process that happened to start it.

use std::{fs, process::Stdio};

use navlock::{BrokerReach, ConnectOptions, Place, UserAgent, blocking::block_on};
use rustix::process::geteuid;

use crate::sandbox::{NAVLOCK, Sandbox, eventually, finish, wait};

/// Asserts that the limits that the starter has lowered are raised again, by `/proc/PID/limits`.
#[cfg(target_os = "linux")]
fn assert_limits_are_as_high_as_may_be(limits: &str) {
    for limit in
        ["Max cpu time", "Max open files", "Max processes", "Max file size", "Max core file size"]
    {
        let line = limits.lines().find(|line| line.starts_with(limit)).unwrap();
        let mut values = line[limit.len()..].split_whitespace();
        assert_eq!(values.next(), values.next(), "soft and hard differ: {line}");
    }
}

/// Asserts that none of the signals that the starter ignores is ignored, by `/proc/PID/status`.
#[cfg(target_os = "linux")]
fn assert_no_signal_is_ignored(status: &str) {
    let field = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        u64::from_str_radix(line.rsplit('\t').next().unwrap(), 16).unwrap()
    };
    // HUP, USR1 and TERM are the signals 1, 10 and 15.
    assert_eq!(field("SigIgn:") & (1 | 1 << 9 | 1 << 14), 0);
    assert_eq!(field("SigBlk:"), 0);
}

#[test]
#[cfg(target_os = "linux")]
fn a_broker_is_not_bound_by_what_its_starter_was() {
    let sandbox = Sandbox::new();
    let script = "umask 0; ulimit -St 100; ulimit -Sn 64; ulimit -Sf 1000; ulimit -Sc 0
        trap '' TERM HUP USR1
        exec taskset -c 0 chrt -b 0 nice -n 3 prlimit --nproc=3000: \"$NAVLOCK\" daemon start";
    let mut starter = sandbox.program("sh");
    let status = starter.args(["-c", script]).env("SECRET", "hunter2").stdout(Stdio::null());
    assert!(wait(&mut status.spawn().unwrap()).success());
    let broker = sandbox.broker().unwrap().as_raw_nonzero();
    let read = |file: &str| fs::read_to_string(format!("/proc/{broker}/{file}")).unwrap();
    assert_limits_are_as_high_as_may_be(&read("limits"));
    let environment = read("environ");
    assert!(!environment.contains("SECRET") && environment.contains("NAVLOCK_SOCKET="));
    assert_eq!(fs::read_link(format!("/proc/{broker}/cwd")).unwrap().to_str(), Some("/"));
    let status = read("status");
    assert_no_signal_is_ignored(&status);
    assert!(status.contains("Umask:\t0077"), "{status}");
    let ours = fs::read_to_string("/proc/self/status").unwrap();
    let processors = ours.lines().find(|line| line.starts_with("Cpus_allowed:")).unwrap();
    assert!(status.contains(processors), "{status}");
    let json = sandbox.written(&["daemon", "status", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let details = &json["details"];
    assert_eq!(details["scheduling"], serde_json::Value::Null, "{details}");
    // What the broker can change only with a privilege is reported.
    let nice = if geteuid().is_root() { "0" } else { "3" };
    assert_eq!(details["nice"], nice, "{details}");
    assert_eq!(details["user"], format!("uid {}", geteuid().as_raw()));
    let starter = details["started by"].as_str().unwrap();
    assert!(starter.contains(" navlock, a client"), "{starter}");
    assert!(details["control group"].is_string() && details["limits"].is_string(), "{details}");
    let shown = sandbox.written(&["daemon", "status"]);
    assert!(shown.contains("\nnice ") && shown.contains("\nstarted by "), "{shown}");
    let said = sandbox.written(&["doctor"]);
    assert!(said.contains("surroundings: "), "{said}");
}

#[test]
fn a_limit_that_cannot_be_put_away_is_told() {
    let sandbox = Sandbox::new();
    let script = "ulimit -t 500; exec \"$NAVLOCK\" daemon start";
    assert!(wait(&mut sandbox.program("sh").args(["-c", script]).spawn().unwrap()).success());
    let said = sandbox.written(&["doctor"]);
    assert!(said.contains("warn  surroundings: limits: ") && said.contains("500 seconds of CPU"));
}

#[test]
fn a_broker_with_all_the_clients_it_can_have_says_so_and_can_still_be_asked_and_ended() {
    let sandbox = Sandbox::new();
    let script = "ulimit -n 64; exec \"$NAVLOCK\" daemon start";
    assert!(wait(&mut sandbox.program("sh").args(["-c", script]).spawn().unwrap()).success());
    let mut clients = Vec::new();
    let refused = loop {
        let place = ConnectOptions::default().place(Place::at(sandbox.socket()));
        let reach = block_on(BrokerReach::connect(place.only_running())).unwrap();
        let locks = UserAgent::with_reach(reach).lock_manager("default");
        match block_on(locks.query()) {
            Ok(_) => clients.push(locks),
            Err(error) => break error.to_string(),
        }
        assert!(clients.len() < 64, "it has more clients than descriptors");
    };
    assert!(clients.len() >= 20, "{refused}");
    assert!(refused.contains("as many as its limit of 64 open files allows"), "{refused}");
    let output = sandbox.output(&["run", "db", "true"]);
    assert_eq!(output.code(), Some(69), "{output:?}");
    // These connections wait to be turned away.
    let _silent: Vec<_> = (0..7)
        .map(|_| std::os::unix::net::UnixStream::connect(sandbox.socket()).unwrap())
        .collect();
    assert!(sandbox.written(&["daemon", "status"]).contains(&format!(" {}\n", clients.len())));
    // Everybody is shown the clients; events are shown only if there is room.
    assert!(sandbox.written(&["clients"]).lines().count() >= 20);
    let output = sandbox.output(&["watch"]);
    let said = &output.stderr;
    assert!(said.contains("as many as its limit of 64 open files allows"), "{said}");
    assert_eq!(output.code(), Some(69), "{said}");
    // A client that is connected goes on, and makes room.
    drop(block_on(clients[0].lock("db").into_future()).unwrap());
    clients.truncate(10);
    eventually("there is room again", || sandbox.code(&["run", "db", "true"]) == 0);
    drop(clients);
    assert!(sandbox.written(&["daemon", "stop"]).contains("has ended"));
}

#[test]
#[cfg(target_os = "linux")]
fn a_socket_that_was_passed_is_served_and_left_to_who_passed_it() {
    let sandbox = Sandbox::new();
    let start = |socket: &str| {
        let mut command = sandbox.program("systemd-socket-activate");
        let variables = ["NAVLOCK_SOCKET", "NAVLOCK_CONFIG", "NAVLOCK_STATE", "NAVLOCK_IDLE_SECS"];
        command.args(variables.iter().flat_map(|name| ["-E", name])).args(["-l", socket]);
        command.args([NAVLOCK, "daemon", "run"]).stdout(Stdio::null()).stderr(Stdio::piped());
        command.spawn().ok()
    };
    let socket = sandbox.socket();
    let Some(mut broker) = start(socket.to_str().unwrap()) else {
        println!("skipped: there is no systemd-socket-activate");
        return;
    };
    eventually("it is listened at", || socket.exists());
    assert_eq!(sandbox.code(&["run", "db", "true"]), 0);
    let details = sandbox.written(&["daemon", "status"]);
    let process = details.lines().find_map(|line| line.strip_prefix("process "));
    assert_eq!(process.map(str::trim), Some(&*broker.id().to_string()), "{details}");
    assert!(details.contains(", with its socket\n"), "{details}");
    assert!(sandbox.written(&["daemon", "stop"]).contains("has ended"));
    assert!(wait(&mut broker).success());
    assert!(socket.exists());
    // A broker that is elsewhere is not the one that clients look for.
    fs::remove_file(&socket).unwrap();
    let other = sandbox.path("other");
    let broker = start(other.to_str().unwrap()).unwrap();
    eventually("it is listened at", || other.exists());
    drop(std::os::unix::net::UnixStream::connect(&other).unwrap());
    let output = finish(broker);
    let said = output.stderr;
    assert!(said.contains("the socket that was passed (LISTEN_FDS) is ") && said.contains("other"));
}

#[test]
#[cfg(target_os = "linux")]
fn the_units_for_systemd_are_what_it_takes() {
    let units = concat!(env!("CARGO_MANIFEST_DIR"), "/../../contrib/systemd/user");
    let sandbox = Sandbox::new();
    for unit in ["navlock.socket", "navlock.service"] {
        let text = fs::read_to_string(format!("{units}/{unit}")).unwrap();
        // No program is installed where the unit expects it.
        let text = text.replace("%h/.cargo/bin/navlock", "/bin/true");
        assert!(!text.contains("/navlock daemon"), "{text}");
        fs::write(sandbox.path(unit), text).unwrap();
    }
    let verify = ["--user", "verify", "navlock.socket", "navlock.service"];
    let mut command = sandbox.program("systemd-analyze");
    let Ok(child) = command
        .args(verify)
        .env("XDG_RUNTIME_DIR", sandbox.path(""))
        .stderr(Stdio::piped())
        .spawn()
    else {
        println!("skipped: there is no systemd-analyze");
        return;
    };
    let output = finish(child);
    assert!(output.status.success(), "{output:?}");
}
