//! The broker: that there is exactly one, when it ends, and whom it does not serve.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    process::Stdio,
    sync::{Arc, mpsc},
    thread,
};

use navlock::{BrokerReach, ConnectOptions, Place, blocking::block_on_timeout};
use navlock_broker::daemon;
use navlock_platform::socket::Stream;
use rustix::{
    fs::{FlockOperation, flock},
    process::geteuid,
};

use crate::{
    sandbox::{NAVLOCK, Sandbox, eventually, finish, wait},
    worker::TIMEOUT,
};

/// The processes that are brokers of this sandbox, whatever its lock file says.
pub(crate) fn brokers(sandbox: &Sandbox) -> Vec<String> {
    let socket = format!("NAVLOCK_SOCKET={}", sandbox.socket().display());
    let is_broker = |pid: &str| {
        let read = |file| fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
        let has = |bytes: Vec<u8>, what: &str| {
            bytes.split(|&byte| byte == 0).any(|part| part == what.as_bytes())
        };
        has(read("cmdline"), "daemon") && has(read("environ"), &socket)
    };
    let processes = fs::read_dir("/proc").unwrap();
    let pids = processes.filter_map(|entry| entry.unwrap().file_name().into_string().ok());
    pids.filter(|pid| is_broker(pid)).collect()
}

#[test]
fn a_hundred_who_start_at_once_or_find_it_dead_at_once_start_one_broker() {
    let sandbox = Sandbox::new();
    let gate = sandbox.pipe("gate");
    let mut holders: Vec<_> = (0..100).map(|_| sandbox.wait_behind(&gate, &["-s", "db"])).collect();
    // A process that opens a pipe waits for its other end, so all holders go on at once.
    let opened = fs::File::options().write(true).open(&gate).unwrap();
    holders.iter_mut().for_each(super::sandbox::Holder::begun);
    drop(opened);
    // All of them hold one lock, so they have one broker; and when it is killed, again one.
    for killed in [false, true] {
        if killed {
            sandbox.replace_broker();
        }
        assert_eq!(sandbox.query().len(), 100);
        let broker = sandbox.broker().unwrap().as_raw_nonzero().to_string();
        assert_eq!(brokers(&sandbox), [broker]);
    }
    holders.into_iter().for_each(super::sandbox::Holder::release);
}

#[test]
fn a_broker_without_clients_ends_and_the_next_client_starts_another() {
    let sandbox = Sandbox::with_idle("0.3");
    let holder = sandbox.hold(&["db"]);
    let first = sandbox.broker();
    assert!(first.is_some());
    holder.release();
    eventually("the broker ends", || sandbox.broker().is_none());
    assert!(!sandbox.socket().exists());
    let holder = sandbox.hold(&["db"]);
    assert!(sandbox.broker().is_some());
    assert_ne!(sandbox.broker(), first);
    holder.release();
}

#[test]
fn fencing_tokens_grow_from_broker_to_broker() {
    let sandbox = Sandbox::with_idle("0.05");
    let mut last: u64 = 0;
    for _ in 0..5 {
        let output = sandbox.output(&["run", "db", "sh", "-c", "echo $NAVLOCK_FENCE"]);
        let fence = output.stdout.trim().parse().unwrap();
        assert!(fence > last, "{fence} after {last}");
        last = fence;
        eventually("the broker ends", || sandbox.broker().is_none());
    }
}

#[test]
fn a_broker_that_always_ends_is_in_nobodys_way() {
    let sandbox = Sandbox::with_idle("0.002");
    let script = "for i in 1 2 3 4 5 6 7 8 9 10; do \"$NAVLOCK\" run db -- true || exit; done";
    let start = || sandbox.program("sh").args(["-c", script]).spawn().unwrap();
    for mut worker in (0..4).map(|_| start()).collect::<Vec<_>>() {
        assert!(wait(&mut worker).success());
    }
}

#[test]
fn a_broker_that_is_killed_while_it_starts_is_started_again() {
    let sandbox = Sandbox::new();
    let program = sandbox.path("program");
    // Another process writes it, so that no program that is being started here has it open for writing.
    let script = r#"printf '%s\n' '#!/bin/sh' 'echo >> "$0.starts"' \
        'test $(wc -l < "$0.starts") = 3 || kill -KILL $$' 'exec "$NAVLOCK" "$@"' > program
        chmod +x program"#;
    let script = script.replace("\"$NAVLOCK\" ", &format!("\"{NAVLOCK}\" "));
    assert!(wait(&mut sandbox.program("sh").args(["-c", &script]).spawn().unwrap()).success());
    let options = ConnectOptions::default().place(Place::at(sandbox.socket())).program(program);
    block_on_timeout(BrokerReach::connect(options), TIMEOUT).unwrap().unwrap();
    assert_eq!(fs::read_to_string(sandbox.path("program.starts")).unwrap().len(), 3);
}

#[test]
fn a_command_that_starts_a_broker_finds_one_that_is_still_starting() {
    let sandbox = Sandbox::new();
    let place = Place::at(sandbox.socket());
    thread::scope(|scope| {
        // A broker that is starting, in this process; the process that started it was killed. It ends before the
        // sandbox, which ends the processes of its brokers.
        let (_end, told_to_end) = Stream::pair().unwrap();
        let (starts, is_starting) = mpsc::channel();
        let (go_on, goes_on) = mpsc::channel();
        scope.spawn(move || {
            let user_agent = |first| {
                starts.send(())?;
                goes_on.recv()?;
                Ok(daemon::user_agent(first))
            };
            let mut options = daemon::Options::default();
            options.end = Some(Arc::new(told_to_end));
            daemon::run(&place, user_agent, &options, || ())
        });
        is_starting.recv_timeout(TIMEOUT).unwrap();
        let child = sandbox.start(&["run", "db", "true"]);
        eventually("it starts another", || !brokers(&sandbox).is_empty());
        go_on.send(()).unwrap();
        let output = finish(child);
        assert!(output.status.success(), "{output:?}");
        assert!(brokers(&sandbox).is_empty());
    });
}

#[test]
fn a_broker_may_have_as_many_clients_as_there_may_be_descriptors() {
    let sandbox = Sandbox::new();
    let script = "ulimit -Sn 40; exec \"$NAVLOCK\" run db true";
    assert!(wait(&mut sandbox.program("sh").args(["-c", script]).spawn().unwrap()).success());
    let holders: Vec<_> = (0..60).map(|_| sandbox.hold(&["-s", "db"])).collect();
    holders.into_iter().for_each(super::sandbox::Holder::release);
}

/// Removes the files of the broker and of its clients from their directory.
fn remove_all(sandbox: &Sandbox) {
    for file in ["sock", "sock.broker.lock", "sock.spawn.lock", "sock.tokens"] {
        let _ = fs::remove_file(sandbox.path(file));
    }
    let _ = fs::remove_dir_all(sandbox.path("sock.clients"));
}

#[test]
fn a_broker_whose_files_are_all_removed_makes_them_anew_and_nothing_is_lost() {
    let sandbox = Sandbox::new();
    let mut holder = sandbox.hold(&["db"]);
    let broker = sandbox.broker().unwrap();
    remove_all(&sandbox);
    eventually("the socket is there again", || sandbox.socket().exists());
    let mut next = sandbox.queue(&["db"]);
    assert_eq!(sandbox.query(), ["held db exclusive", "pending db exclusive"]);
    assert_eq!(sandbox.broker(), Some(broker));
    // The clients have made their files anew as well, so the next broker waits for them.
    let clients = || {
        let files = fs::read_dir(sandbox.path("sock.clients")).into_iter().flatten().flatten();
        // Files that are still being written do not count, nor does the note that files were removed.
        let is_client =
            |path: &std::path::Path| path.extension().is_none() && !path.ends_with("removed");
        files.filter(|file| is_client(&file.path())).count()
    };
    eventually("both are known", || clients() == 2);
    sandbox.replace_broker();
    assert_eq!(sandbox.query(), ["held db exclusive", "pending db exclusive"]);
    holder.let_go();
    assert!(holder.ended().success());
    next.begun();
    next.release();
}

#[test]
fn a_command_whose_navlock_is_killed_after_its_files_were_removed_keeps_its_lock() {
    let sandbox = Sandbox::new();
    let mut holder = sandbox.hold(&["db"]);
    // The query goes over another connection. When it is answered, the broker knows what a command has left
    // of this one.
    assert_eq!(sandbox.query(), ["held db exclusive"]);
    sandbox.remove_clients();
    holder.kill_wrapper();
    assert_eq!(sandbox.code(&["run", "-n", "db", "true"]), 1);
    assert_eq!(sandbox.query(), ["held db exclusive"]);
    holder.kill_command();
    assert_eq!(sandbox.code(&["run", "-w", "20", "db", "true"]), 0);
}

#[test]
fn a_waiter_runs_its_command_although_all_files_are_removed_meanwhile() {
    let sandbox = Sandbox::new();
    let holder = sandbox.hold(&["db"]);
    let mut next = sandbox.queue(&["db"]);
    remove_all(&sandbox);
    eventually("the socket is there again", || sandbox.socket().exists());
    holder.release();
    next.begun();
    next.release();
}

#[test]
#[cfg(target_os = "linux")]
fn a_broker_of_another_pid_namespace_serves_and_nothing_is_granted_twice() {
    let sandbox = Sandbox::new();
    let holder = sandbox.hold(&["db"]);
    // Neither the broker nor the holder has a number there.
    let script = r#""$NAVLOCK" run -n db true; echo "$?"; "$NAVLOCK" run -n other true; echo "$?""#;
    let Some(shown) = in_namespaces(&sandbox, &["-rpf"], script) else { return };
    assert_eq!(shown, "1\n0\n");
    holder.release();
}

#[test]
#[cfg(target_os = "linux")]
fn where_something_else_is_mounted_at_the_place_there_is_another_broker() {
    let sandbox = Sandbox::new();
    let place = sandbox.path("place");
    fs::create_dir(&place).unwrap();
    // Two containers that share a home and `/run`, each with its own directory in `/run`.
    let script = r#"mkdir other && chmod 700 place other && export NAVLOCK_SOCKET="$PWD/place/sock"
        "$NAVLOCK" run -n db unshare -m sh -c '
            mount --bind other place && "$NAVLOCK" run -n db true; echo "$?"; "$NAVLOCK" daemon stop >&2'
        "$NAVLOCK" daemon stop >&2"#;
    let Some(shown) = in_namespaces(&sandbox, &["-rm"], script) else { return };
    assert_eq!(shown, "0\n");
}

/// What this script writes in namespaces of its own, if such can be made here.
#[cfg(target_os = "linux")]
pub(crate) fn in_namespaces(sandbox: &Sandbox, which: &[&str], script: &str) -> Option<String> {
    let mut command = sandbox.program("unshare");
    command.args(which).args(["sh", "-c", script]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = finish(command.spawn().unwrap());
    let said = output.stderr;
    if said.contains("unshare") || said.contains("mount:") {
        println!("skipped: no namespaces are to be had: {said}");
        return None;
    }
    print!("{said}");
    Some(output.stdout)
}

#[test]
fn removing_all_files_again_and_again_never_lets_two_holders_in_at_once() {
    let sandbox = Sandbox::new();
    fs::write(sandbox.path("witness"), "").unwrap();
    // The witness is the kernel's own lock, which the commands take.
    let script = "i=0; while [ $i -lt 30 ] || [ ! -e enough ]; do i=$((i+1))
        \"$NAVLOCK\" run db flock -n -E 99 witness true
        code=$?; [ $code != 99 ] || { echo two at once; exit 99; }
    done";
    let start =
        || sandbox.program("sh").args(["-c", script]).stderr(Stdio::null()).spawn().unwrap();
    let mut workers: Vec<_> = (0..3).map(|_| start()).collect();
    let mut removed = 0;
    while workers.iter_mut().any(|worker| worker.try_wait().unwrap().is_none()) {
        if sandbox.socket().exists() {
            remove_all(&sandbox);
            removed += 1;
            if removed > 3 {
                fs::write(sandbox.path("enough"), "").unwrap();
            }
        }
        std::thread::park_timeout(std::time::Duration::from_millis(20));
    }
    for mut worker in workers {
        assert_ne!(wait(&mut worker).code(), Some(99));
    }
    assert!(removed > 3, "{removed}");
}

#[test]
fn a_broker_locks_its_directory_against_cleaners_of_old_files() {
    let sandbox = Sandbox::new();
    let directory = fs::File::open(sandbox.path("")).unwrap();
    let is_free = || flock(&directory, FlockOperation::NonBlockingLockExclusive).is_ok();
    assert!(is_free());
    flock(&directory, FlockOperation::Unlock).unwrap();
    let holder = sandbox.hold(&["db"]);
    assert!(!is_free());
    holder.release();
}

#[test]
fn a_broker_that_cannot_note_its_number_serves_all_the_same() {
    let sandbox = Sandbox::new();
    // No file may grow.
    let script = "trap '' XFSZ; ulimit -f 0; exec \"$NAVLOCK\" run --close db true";
    assert!(wait(&mut sandbox.program("sh").args(["-c", script]).spawn().unwrap()).success());
}

#[test]
fn a_directory_of_somebody_else_and_a_link_are_refused() {
    let sandbox = Sandbox::new();
    let theirs = sandbox.path("theirs");
    fs::create_dir(&theirs).unwrap();
    let link = sandbox.path("link");
    symlink(&theirs, &link).unwrap();
    let refusal = |directory: &std::path::Path| {
        let socket = directory.join("sock");
        let child = sandbox.start(&["run", "--socket", socket.to_str().unwrap(), "db", "true"]);
        let output = finish(child);
        assert_eq!(output.code(), Some(69));
        output.stderr
    };
    assert!(refusal(&link).contains("link is not a directory"));
    // Only root can give a directory away; what other users see is tested beside the check.
    if geteuid().is_root() {
        std::os::unix::fs::chown(&theirs, Some(65534), None).unwrap();
        assert!(refusal(&theirs).contains("theirs is owned by uid 65534"));
    }
    assert_eq!(fs::read_dir(&theirs).unwrap().count(), 0);
}

#[test]
fn a_file_in_the_place_of_the_socket_is_refused_and_left_alone() {
    let sandbox = Sandbox::new();
    fs::write(sandbox.socket(), "precious").unwrap();
    let output = sandbox.output(&["run", "db", "true"]);
    assert_eq!(output.code(), Some(69));
    assert!(output.stderr.contains("sock is not a socket; set NAVLOCK_SOCKET"));
    assert_eq!(fs::read_to_string(sandbox.socket()).unwrap(), "precious");
}

#[test]
fn its_files_are_its_users_alone_whatever_the_mask() {
    let sandbox = Sandbox::new();
    let script = "umask 0; exec \"$NAVLOCK\" daemon start";
    assert!(wait(&mut sandbox.program("sh").args(["-c", script]).spawn().unwrap()).success());
    let files = ["sock", "sock.broker.lock", "sock.tokens", "state/tokens"];
    for (name, mode) in files.map(|name| (name, 0o600)).into_iter().chain([("state", 0o700)]) {
        let found = fs::symlink_metadata(sandbox.path(name)).unwrap().permissions();
        assert_eq!(found.mode() & 0o777, mode, "{name}");
    }
}

#[test]
fn fencing_tokens_grow_although_the_place_was_emptied_and_the_clock_turned_back() {
    let sandbox = Sandbox::new();
    let fence = |clock: &str| -> Option<u64> {
        let mut command = sandbox.program("faketime");
        command.args(["--exclude-monotonic", "-f", clock, NAVLOCK, "daemon", "run"]);
        let mut broker = command.stdout(Stdio::null()).spawn().ok()?;
        eventually("it is there", || sandbox.code(&["daemon", "status"]) == 0);
        let fence = sandbox.fence("db");
        sandbox.written(&["daemon", "stop"]);
        assert!(wait(&mut broker).success());
        Some(fence)
    };
    let Some(before) = fence("+400d") else {
        println!("skipped: there is no faketime");
        return;
    };
    fs::remove_file(sandbox.path("sock.tokens")).unwrap();
    assert!(fence("-400d").unwrap() > before);
}
