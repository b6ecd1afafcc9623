//! Holds of scripts for `sh`, and what is done to their keepers by signals, sockets and files of Unix.

use std::{
    fs::{self, File},
    io::{Read, Write},
    os::fd::OwnedFd,
    os::unix::{
        fs::{PermissionsExt, symlink},
        net::UnixStream,
        process::CommandExt,
    },
    path::PathBuf,
    process::Stdio,
};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use super::LONG;
use crate::{
    sandbox::{NAVLOCK, Sandbox, eventually, finish, wait},
    worker::TIMEOUT,
};

impl Sandbox {
    /// Runs this script to its end. Returns its code, and what it has written to both streams.
    fn script(&self, script: &str) -> (Option<i32>, String) {
        let mut command = self.program("sh");
        command.args(["-c", script]).stdout(Stdio::piped()).stderr(Stdio::piped());
        let output = finish(command.spawn().unwrap());
        (output.code(), output.stdout + &output.stderr)
    }
}

#[test]
fn a_script_has_its_lock_over_many_commands_and_until_it_ends() {
    let sandbox = Sandbox::new();
    for (end, code) in [("exit 3", Some(3)), ("kill -KILL $$", None)] {
        let script = format!(
            "set -e
             hold=$(\"$NAVLOCK\" hold -q --while-pid $$ --why nightly db)
             \"$NAVLOCK\" query --json db
             ! \"$NAVLOCK\" run -n -q db true
             echo $$
             {end}"
        );
        let (ended, said) = sandbox.script(&script);
        let lines: Vec<_> = said.lines().collect();
        let [shown, script] = lines[..] else { panic!("{said}") };
        assert_eq!(ended, code, "{said}");
        // Looking shows the script as the holder.
        let shown: serde_json::Value = serde_json::from_str(shown).unwrap();
        assert_eq!(shown["pid"].to_string(), script, "{said}");
        assert_eq!((&shown["command"], &shown["why"]), (&"sh".into(), &"nightly".into()));
        assert_eq!(sandbox.code(&["run", "-w", "10", "db", "true"]), 0);
        eventually("nothing is left", || sandbox.sockets() == 0);
    }
}

/// A process that reads a command's output reads until no process has it open any more.
#[test]
fn a_keeper_has_no_file_of_the_script_open() {
    let sandbox = Sandbox::new();
    let script = "exec 7>inherited 8<&0
        hold=$(\"$NAVLOCK\" hold --ttl 100 db 2>&1) || exit
        echo \"$hold\" | head -n 1";
    let (code, said) = sandbox.script(script);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(sandbox.query(), ["held db exclusive"]);
    let keeper = sandbox.holder();
    if cfg!(target_os = "linux") {
        let process = format!("/proc/{}", keeper.as_raw_nonzero());
        let open = fs::read_dir(format!("{process}/fd")).unwrap();
        let open = open.map(|entry| fs::read_link(entry.unwrap().path()).unwrap());
        let open: Vec<_> = open.map(|path| path.to_string_lossy().into_owned()).collect();
        // Everything else that is open is the keeper's own: sockets, descriptors of the kernel, and its
        // client's file.
        let is_ours = |path: &String| path.contains(':') || path.contains("/sock.clients/");
        let rest: Vec<_> = open.iter().filter(|path| !is_ours(path)).collect();
        assert_eq!(rest, ["/dev/null"; 3], "{open:?}");
        assert_eq!(fs::read_link(format!("{process}/cwd")).unwrap().to_str(), Some("/"));
    }
    assert_eq!(rustix::process::getsid(Some(keeper)), Ok(keeper));
    assert_eq!(sandbox.released(said.trim()).0, Some(0));
}

#[test]
fn a_kill_of_the_process_group_of_a_job_leaves_locks_that_were_taken_for_a_time() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.program("sh");
    command.args(["-c", "\"$NAVLOCK\" hold --ttl 100 db >id && kill -KILL 0"]).process_group(0);
    assert_eq!(wait(&mut command.spawn().unwrap()).code(), None);
    assert_eq!(sandbox.query(), ["held db exclusive"]);
    let hold = fs::read_to_string(sandbox.path("id")).unwrap();
    assert_eq!(sandbox.code(&["release", &hold]), 0);
}

/// By another clock, the lock would be held longer by the time for which the machine was suspended.
#[test]
#[cfg(target_os = "linux")]
fn its_time_goes_on_while_the_machine_is_suspended() {
    let sandbox = Sandbox::new();
    let hold = sandbox.written(&["hold", "--ttl", "1e18", "db"]);
    let descriptors = format!("/proc/{}/fdinfo", sandbox.holder().as_raw_nonzero());
    let read = |entry: std::io::Result<fs::DirEntry>| fs::read_to_string(entry.unwrap().path());
    let told: Vec<_> = fs::read_dir(descriptors).unwrap().filter_map(|fd| read(fd).ok()).collect();
    // Release it first: it has so much time that it would be left behind.
    assert_eq!(sandbox.released(&hold).0, Some(0));
    let boottime = format!("clockid: {}\n", rustix::time::TimerfdClockId::Boottime as u32);
    assert_eq!(told.iter().filter(|told| told.contains(&boottime)).count(), 1, "{told:?}");
}

#[test]
fn a_hold_that_cannot_end_or_has_ended_already_is_refused() {
    let sandbox = Sandbox::new();
    let mut dead = sandbox.program("true").spawn().unwrap();
    let zombie = dead.id().to_string();
    eventually("it has ended", || {
        let status = fs::read_to_string(format!("/proc/{zombie}/status")).unwrap_or_default();
        status.contains("State:\tZ") || cfg!(not(target_os = "linux"))
    });
    for (arguments, what) in [
        (&["hold", "db"][..], "say until when: '--while-pid $$'"),
        (&["hold", "--ttl", "0", "db"], "a time above 0"),
        (&["hold", "--ttl", "-1", "db"], "a time above 0"),
        (&["hold", "--ttl", "soon", "db"], "a time above 0"),
        (&["hold", "--while-pid", "0", "db"], "the number of a process"),
        (&["hold", "--while-pid", "-7", "db"], "the number of a process"),
        (&["hold", "--while-pid", "4194305", "db"], "there is no process 4194305"),
        (&["hold", "--while-pid", &zombie, "db"], "has ended; nothing is held"),
        (&["hold", "--ttl", "9", "--on-lost", "term", "db"], "--while-pid"),
        (&["hold", "--ttl", "9"], "<NAME>"),
        (&["release", ""], "it is neither an id of a hold nor a name"),
        (&["extend", "", "9"], "it is neither an id of a hold nor a name"),
        (&["--keeper-of-a-hold", "hold", "--ttl", "9", "db"], "only 'navlock hold' itself"),
    ] {
        let output = sandbox.output(arguments);
        let said = &output.stderr;
        assert_eq!(output.code(), Some(64), "{arguments:?}: {said}");
        assert!(said.contains(what) && said.lines().count() == 1, "{arguments:?}: {said}");
        assert!(output.stdout.is_empty());
    }
    let (code, said) = sandbox.script("exec \"$NAVLOCK\" hold --while-pid $$ db");
    assert!(code == Some(64) && said.contains("names this 'navlock hold' itself"), "{said}");
    wait(&mut dead);
    assert!(sandbox.query().is_empty());
}

/// The numbers of a process's threads are taken from the same space as those of processes.
#[test]
#[cfg(target_os = "linux")]
fn a_thread_is_no_process_that_could_be_waited_for() {
    let sandbox = Sandbox::new();
    let thread = nix::unistd::gettid();
    assert_ne!(thread, nix::unistd::getpid(), "tests run in threads of their own");
    let thread = thread.to_string();
    let output = sandbox.output(&["hold", "--while-pid", &thread, "db"]);
    output.assert_says(64, "is a thread's number");
}

#[test]
fn an_asker_that_is_ended_while_it_waits_gets_nothing() {
    let sandbox = Sandbox::new();
    for (signal, to_all) in [(Signal::KILL, false), (Signal::TERM, false), (Signal::INT, true)] {
        let holder = sandbox.hold(&["db"]);
        let mut asker = sandbox.navlock(&["hold", "--ttl", LONG, "-q", "free", "db"]);
        let mut asker = asker.process_group(0).stdout(Stdio::null()).spawn().unwrap();
        eventually("it waits", || sandbox.query().contains(&"pending db exclusive".to_owned()));
        let process = Pid::from_child(&asker);
        let send = if to_all { kill_process_group } else { kill_process };
        send(process, signal).unwrap();
        assert_eq!(wait(&mut asker).code(), None);
        eventually("it has left the queue", || sandbox.query() == ["held db exclusive"]);
        holder.release();
        assert!(sandbox.query().is_empty(), "{signal:?}");
    }
}

/// The keeper has the lock by then, and a pidfd of the process that had that number.
#[test]
fn an_asker_that_is_stopped_while_its_process_ends_gets_nothing() {
    let sandbox = Sandbox::new();
    let holder = sandbox.hold(&["db"]);
    let mut script = sandbox.program("cat").stdin(Stdio::piped()).spawn().unwrap();
    let asker = sandbox.start(&["hold", "--while-pid", &script.id().to_string(), "-q", "db"]);
    eventually("it waits", || sandbox.query().len() == 2);
    kill_process(Pid::from_child(&asker), Signal::STOP).unwrap();
    holder.release();
    eventually("its keeper has it", || sandbox.query() == ["held db exclusive"]);
    drop(script.stdin.take());
    wait(&mut script);
    kill_process(Pid::from_child(&asker), Signal::CONT).unwrap();
    let output = finish(asker);
    assert_eq!((output.code(), &*output.stdout), (Some(64), ""));
    eventually("it is free", || sandbox.query().is_empty());
}

#[test]
fn idle_callers_of_a_keeper_do_not_prevent_a_release() {
    let sandbox = Sandbox::new();
    let hold = sandbox.hold_long(&["db"]);
    let socket = sandbox.path("sock.holds").join(hold.lines().next().unwrap());
    let mut callers: Vec<_> = (0..200).map(|_| UnixStream::connect(&socket).unwrap()).collect();
    let mut caller = callers.pop().unwrap();
    caller.write_all(b"what?").unwrap();
    let mut answer = String::new();
    caller.set_read_timeout(Some(TIMEOUT)).unwrap();
    caller.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("{\"Refused\":"), "{answer}");
    assert_eq!(sandbox.released(&hold), (Some(0), String::new()));
}

#[test]
fn an_id_that_cannot_be_written_is_not_held() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.navlock(&["hold", "--ttl", LONG, "db"]);
    let full = File::options().write(true).open("/dev/full").unwrap();
    let output = finish(command.stdout(full).stderr(Stdio::piped()).spawn().unwrap());
    output.assert_says(1, "cannot write the id: No space left");
    eventually("it is free", || sandbox.query().is_empty());
    // The other end of this socket is closed: nobody reads the answer.
    let (unread, closed) = UnixStream::pair().unwrap();
    drop(unread);
    let mut command = sandbox.navlock(&["hold", "--ttl", LONG, "db"]);
    command.stdout(OwnedFd::from(closed)).stderr(Stdio::piped());
    let output = finish(command.spawn().unwrap());
    output.assert_says(1, "nothing is held");
    eventually("it is free", || sandbox.query().is_empty());
}

#[test]
#[cfg(target_os = "linux")]
fn an_id_that_nobody_could_read_is_not_held() {
    let sandbox = Sandbox::new();
    for closed in [">&-", "1</dev/null"] {
        let (code, said) =
            sandbox.script(&format!("\"$NAVLOCK\" hold --while-pid $PPID db {closed}"));
        assert_eq!(code, Some(1), "{closed}: {said}");
        assert!(said.contains("nothing is held"), "{said}");
        assert!(sandbox.query().is_empty());
    }
    let (code, said) =
        sandbox.script("\"$NAVLOCK\" hold --ttl 100 db >/dev/null && \"$NAVLOCK\" release db");
    assert_eq!((code, &*said), (Some(0), ""), "somebody who needs no id has said so");
}

#[test]
fn a_release_does_not_wait_for_ever_for_a_stopped_keeper() {
    let sandbox = Sandbox::new();
    let hold = sandbox.hold_long(&["db"]);
    let keeper = sandbox.holder();
    kill_process(keeper, Signal::STOP).unwrap();
    let number = keeper.as_raw_nonzero();
    let (code, said) = sandbox.released(&hold);
    assert_eq!(code, Some(69));
    assert!(said.contains(&format!("({number}) does not answer for 5 seconds")), "{said}");
    assert!(said.contains(&format!("'kill -CONT {number}'")), "{said}");
    // The keeper has been asked.
    kill_process(keeper, Signal::CONT).unwrap();
    eventually("it is free", || sandbox.query().is_empty());
}

#[test]
fn a_process_is_told_of_a_loss_if_that_was_asked() {
    let sandbox = Sandbox::new();
    for (how, says) in [("term", "told\n"), ("kill", ""), ("ignore", "done\n")] {
        let script = format!(
            "trap 'echo told; exit' TERM
             \"$NAVLOCK\" hold -q --while-pid $$ --on-lost {how} db >id
             \"$NAVLOCK\" run --steal db true
             if [ {how} != ignore ]; then while :; do \"$NAVLOCK\" query >/dev/null; done; fi
             echo done"
        );
        let (_, said) = sandbox.script(&script);
        assert_eq!(said, says, "{how}");
    }
}

#[test]
fn many_locks_are_held_and_a_path_may_be_as_long_as_that_of_a_socket() {
    let sandbox = Sandbox::new();
    let directory = sandbox.path(&"d".repeat(98 - sandbox.path("").as_os_str().len() - 2));
    fs::create_dir(&directory).unwrap();
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o700)).unwrap();
    let socket = directory.join("s");
    let socket = socket.to_str().unwrap();
    assert!(socket.len() > 90, "{socket}");
    let names: Vec<_> = (0..300).map(|number| format!("name {number}")).collect();
    let mut arguments = vec!["hold", "--socket", socket, "--ttl", LONG];
    arguments.extend(names.iter().map(String::as_str));
    let hold = sandbox.written(&arguments);
    assert_eq!(hold.lines().count(), 301);
    assert_eq!(sandbox.code(&["run", "--socket", socket, "-n", "-q", "name 7", "true"]), 1);
    assert_eq!(sandbox.code(&["release", &hold]), 1, "it is at another place");
    assert_eq!(sandbox.code(&["release", "--socket", socket, &hold]), 0);
    assert_eq!(sandbox.code(&["daemon", "stop", "--socket", socket]), 0);
}

#[test]
fn a_directory_that_cannot_be_used_is_told_and_nothing_held() {
    let sandbox = Sandbox::new();
    let holds = sandbox.path("sock.holds");
    let refused = |what: &str| {
        let output = sandbox.output(&["hold", "--ttl", LONG, "db"]);
        let said = &output.stderr;
        assert_eq!(output.code(), Some(69), "{said}");
        assert!(said.contains("the lock was not taken") && said.contains(what), "{said}");
        assert!(sandbox.query().is_empty());
    };
    let elsewhere = sandbox.path("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    symlink(&elsewhere, &holds).unwrap();
    refused("is no directory that is this user's alone");
    fs::remove_file(&holds).unwrap();
    File::create(&holds).unwrap();
    refused("is no directory that is this user's alone");
    fs::remove_file(&holds).unwrap();
    fs::create_dir(&holds).unwrap();
    fs::set_permissions(&holds, fs::Permissions::from_mode(0o777)).unwrap();
    refused("mode 0700");
    fs::remove_dir(&holds).unwrap();
    let hold = sandbox.hold_long(&["db"]);
    assert_eq!(fs::metadata(&holds).unwrap().permissions().mode() & 0o777, 0o700);
    assert_eq!(sandbox.released(&hold).0, Some(0));
}

/// As when a program cleans the directory while a `navlock hold` waits.
#[test]
fn a_lock_is_released_again_if_its_socket_is_gone_when_it_is_granted() {
    let sandbox = Sandbox::new();
    let first = sandbox.hold_long(&["db"]);
    let mut command = sandbox.navlock(&["hold", "-q", "--ttl", LONG, "db"]);
    let waiter = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    eventually("it waits", || sandbox.pending() == 1);
    let sockets = fs::read_dir(sandbox.path("sock.holds")).unwrap();
    let sockets = sockets.map(|socket| socket.unwrap().path());
    let of_the_waiter = |path: &PathBuf| path.extension().is_some_and(|is| is == "new");
    let sockets: Vec<_> = sockets.filter(of_the_waiter).collect();
    assert_eq!(sockets.len(), 1, "{sockets:?}");
    fs::remove_file(&sockets[0]).unwrap();
    assert_eq!(sandbox.released(&first).0, Some(0));
    let output = finish(waiter);
    let said = &output.stderr;
    assert_eq!(output.code(), Some(69), "{said}");
    assert!(said.contains("the lock was taken and released again"), "{said}");
    assert!(output.stdout.is_empty());
    eventually("it is free", || sandbox.query().is_empty());
}

/// The number means another process there, or none.
#[test]
#[cfg(target_os = "linux")]
fn a_process_of_another_container_is_not_taken_for_one_of_this() {
    let sandbox = Sandbox::new();
    let us = std::process::id().to_string();
    let mut command = sandbox.program("unshare");
    command.args(["--pid", "--fork", "--kill-child", NAVLOCK, "hold", "--while-pid", &us, "db"]);
    let output = match command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn() {
        Ok(child) => finish(child),
        Err(error) => return println!("skipped: {error}"),
    };
    let said = &output.stderr;
    if said.starts_with("unshare:") {
        return println!("skipped: {said}");
    }
    assert!(said.contains("its number in another container"), "{said}");
    assert_eq!(output.code(), Some(64));
}
