//! What happens if something is short: threads, room on disks.

use std::{
    fs,
    io::Read,
    os::unix::{fs::MetadataExt, process::CommandExt},
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use crate::sandbox::{NAVLOCK, Output, Sandbox, eventually, finish};

/// Users that no other process has, one for each test that counts a user's threads.
const NOBODY: u32 = 54_713;
const NOBODY_ELSE: u32 = 54_714;
const NOBODY_ALONE: u32 = 54_715;
const NOBODY_WAITING: u32 = 54_716;

/// Whether this is root. Otherwise prints that the test is skipped.
fn is_root(test: &str) -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        println!("skipped: {test}: only root can set it up");
    }
    is_root
}

/// A sandbox of this user, with the program where that user finds it.
fn sandbox_of(uid: u32) -> (Sandbox, PathBuf) {
    let sandbox = Sandbox::new();
    std::os::unix::fs::chown(sandbox.path(""), Some(uid), Some(uid)).unwrap();
    let program = sandbox.path("navlock");
    // Another process copies: what this process has open for writing, a program that another test starts
    // would have open too.
    let copied = Command::new("cp").arg(NAVLOCK).arg(&program).status().unwrap();
    assert!(copied.success());
    (sandbox, program)
}

/// How many threads this user has.
fn threads_of(uid: u32) -> usize {
    let processes = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let owned = processes.filter(|process| {
        let name = process.file_name();
        let is_process = name.to_str().is_some_and(|name| name.parse::<u32>().is_ok());
        is_process && process.metadata().is_ok_and(|metadata| metadata.uid() == uid)
    });
    let threads = owned.filter_map(|process| fs::read_dir(process.path().join("task")).ok());
    threads.map(Iterator::count).sum()
}

#[test]
#[cfg(target_os = "linux")]
fn a_command_that_runs_is_not_killed_for_want_of_threads() {
    // Root may have as many threads as it wants.
    if !is_root("threads") {
        return;
    }
    let (sandbox, program) = sandbox_of(NOBODY);
    let as_nobody = |mut command: Command| {
        command.uid(NOBODY).gid(NOBODY).stdin(Stdio::null()).stderr(Stdio::piped());
        finish(command.spawn().unwrap())
    };
    let mut first = sandbox.program(&program);
    first.args(["run", "db", "true"]);
    let first = as_nobody(first);
    assert!(first.status.success(), "{first:?}");
    // This leaves room for the wrapper's thread and for the command.
    let most = threads_of(NOBODY) + 2;
    let mut scarce = sandbox.program("prlimit");
    scarce.arg(format!("--nproc={most}")).arg(&program);
    scarce.args(["run", "db", "sh", "-c", "exit 5"]);
    let output = as_nobody(scarce);
    assert_eq!(output.code(), Some(5), "{output:?}");
    // With one thread less, there is no command to begin with.
    let mut too_scarce = sandbox.program("prlimit");
    too_scarce.arg(format!("--nproc={}", most - 1)).arg(&program);
    too_scarce.args(["run", "db", "sh", "-c", "exit 5"]);
    let output = as_nobody(too_scarce);
    assert_eq!(output.code(), Some(126), "{output:?}");
}

#[test]
#[cfg(target_os = "linux")]
fn a_command_is_told_of_a_theft_also_for_want_of_threads() {
    if !is_root("threads") {
        return;
    }
    let (sandbox, program) = sandbox_of(NOBODY_ELSE);
    let as_nobody = |mut command: Command| {
        command.uid(NOBODY_ELSE).gid(NOBODY_ELSE).stderr(Stdio::piped());
        command.spawn().unwrap()
    };
    let mut first = sandbox.program(&program);
    first.args(["run", "db", "true"]).stdin(Stdio::null());
    assert!(finish(as_nobody(first)).status.success());
    let mut scarce = sandbox.program("prlimit");
    scarce.arg(format!("--nproc={}", threads_of(NOBODY_ELSE) + 2)).arg(&program);
    scarce.args(["run", "db", "sh", "-c", "echo runs; while read x; do :; done"]);
    scarce.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut holder = as_nobody(scarce);
    let mut said = [0; 5];
    holder.stdout.take().unwrap().read_exact(&mut said).unwrap();
    let command = holder.stdin.take();
    let mut thief = sandbox.program(&program);
    thief.args(["run", "--steal", "db", "true"]).stdin(Stdio::null());
    assert!(finish(as_nobody(thief)).status.success());
    assert_eq!(finish(holder).status.code(), Some(75));
    drop(command);
}

#[test]
#[cfg(target_os = "linux")]
fn a_command_is_told_that_a_broker_gave_it_up_also_for_want_of_threads() {
    if !is_root("threads") {
        return;
    }
    let (sandbox, program) = sandbox_of(NOBODY_ALONE);
    let as_nobody = |arguments: &[&str]| {
        let mut command = sandbox.program(&program);
        command.args(arguments).uid(NOBODY_ALONE).gid(NOBODY_ALONE);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    };
    // The command does not hold without its wrapper.
    let script = "echo runs; while read x; do :; done";
    let mut holder = as_nobody(&["run", "-o", "db", "sh", "-c", script]);
    holder.stdout.take().unwrap().read_exact(&mut [0; 5]).unwrap();
    let command = holder.stdin.take();
    // Its user sets the limit: in a container, root may not limit others.
    let mut limit = sandbox.program("prlimit");
    limit.args(["--pid", &holder.id().to_string(), "--nproc=1"]);
    assert!(limit.uid(NOBODY_ALONE).gid(NOBODY_ALONE).status().unwrap().success());
    sandbox.kill_broker();
    assert!(finish(as_nobody(&["run", "-w", "25", "db", "true"])).status.success());
    assert_eq!(finish(holder).status.code(), Some(75));
    drop(command);
}

#[test]
#[cfg(target_os = "linux")]
fn a_waiter_whose_broker_dies_goes_on_with_a_thread_or_is_told_that_there_is_none() {
    if !is_root("threads") {
        return;
    }
    let (sandbox, program) = sandbox_of(NOBODY_WAITING);
    let as_nobody = |arguments: &[&str]| {
        let mut command = sandbox.program(&program);
        command.args(arguments).uid(NOBODY_WAITING).gid(NOBODY_WAITING);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    };
    let threads = |waiter: &Child, limit: &str| {
        let mut command = sandbox.program("prlimit");
        command.args(["--pid", &waiter.id().to_string(), limit]);
        command.uid(NOBODY_WAITING).gid(NOBODY_WAITING);
        assert!(command.status().unwrap().success());
    };
    let script = "echo runs; while read x; do :; done";
    let mut holder = as_nobody(&["run", "db", "sh", "-c", script]);
    holder.stdout.take().unwrap().read_exact(&mut [0; 5]).unwrap();
    let mut number = 0;
    let [goes_on, stays] = ["exit 5", "exit 3"].map(|script| {
        let waiter = as_nobody(&["run", "db", "sh", "-c", script]);
        number += 1;
        eventually("it waits", || {
            let shown = finish(as_nobody(&["query", "--json"]));
            shown.stdout.matches("pending").count() == number
        });
        threads(&waiter, "--nproc=1:");
        waiter
    });
    sandbox.kill_broker();
    threads(&goes_on, "--nproc=500:");
    let output = finish(stays);
    assert_eq!(output.code(), Some(69), "{output:?}");
    assert!(output.stderr.contains("starting a thread"), "{output:?}");
    drop(holder.stdin.take());
    assert_eq!(finish(goes_on).status.code(), Some(5));
    finish(holder);
}

#[test]
fn a_command_with_too_few_descriptors_is_not_told_of_a_full_disk() {
    let sandbox = Sandbox::new();
    assert_eq!(sandbox.code(&["run", "db", "true"]), 0);
    // Try limits from where not even a library can be loaded to where nothing is missing.
    let script = "ulimit -n $0; exec \"$NAVLOCK\" run db true";
    let said: Vec<_> = (3..40)
        .map(|limit: u32| {
            let mut command = sandbox.program("sh");
            command.args(["-c", script, &limit.to_string()]).stdin(Stdio::null());
            let output = finish(command.stderr(Stdio::piped()).spawn().unwrap());
            output.stderr
        })
        .collect();
    let of_the_command = |said: &&String| said.contains("the command was not started");
    assert!(said.iter().filter(of_the_command).count() > 0, "{said:#?}");
    let names_limit = |said: &String| said.contains("raise the limit of open files (ulimit -n)");
    assert!(said.iter().filter(of_the_command).all(names_limit), "{said:#?}");
}

/// What a disk may have too few of, as options of a file system and a shell's way to use them up.
pub(crate) const BYTES: [&str; 2] =
    ["size=64k,nr_inodes=100", r#"cat /dev/zero >"$D/filler" || :"#];
pub(crate) const FILES: [&str; 2] =
    ["size=8m,nr_inodes=30", r#"i=0; while : >"$D/f$i"; do i=$((i+1)); done"#];

/// Runs the script in a shell that has a small file system of its own at `$D`, with a broker on it.
/// `fill` leaves no room there; `like TEXT PATTERN` ends the script if it is not.
fn on_a_small_disk(disk: [&str; 2], script: &str) {
    on_a_small_disk_with(&[], disk, script);
}

/// As [`on_a_small_disk`], with these variables besides.
pub(crate) fn on_a_small_disk_with(
    variables: &[(&str, &str)],
    [options, fill]: [&str; 2],
    script: &str,
) {
    if !is_root("a small disk") {
        return;
    }
    let sandbox = Sandbox::new();
    let disk = sandbox.path("disk");
    fs::create_dir(&disk).unwrap();
    let script = format!(
        "set -e
         mount -t tmpfs -o mode=700,{options} tmpfs \"$D\" || exit 77
         fill() {{ {fill}; }} 2>/dev/null
         says() {{ if out=$(\"$@\" 2>&1); then echo \"0 $out\"; else echo \"$? $out\"; fi; }}
         like() {{ case $1 in $2) ;; *) echo \"$1 -- is not like -- $2\"; exit 1; esac; }}
         eventually() {{
             for i in {{1..1000}}; do if \"$@\"; then return; fi; sleep .02; done
             echo \"not in time: $*\"; exit 1
         }}
         shows() {{ case $(\"$NAVLOCK\" query) in $1) ;; *) false; esac; }}
         \"$NAVLOCK\" run db true
         is_gone() {{ test -z \"$(ls \"$D/sock.clients\")\"; }}
         # The file of that client would make room when it goes.
         eventually is_gone
         trap 'kill $(jobs -p) 2>/dev/null || :; \"$NAVLOCK\" daemon stop >/dev/null' EXIT
         {script}"
    );
    let mut command = sandbox.program("unshare");
    command.args(["--mount", "bash", "-c", &script]).env("D", &disk);
    command.envs(variables.iter().copied());
    command.env("NAVLOCK_SOCKET", disk.join("sock")).stdin(Stdio::null());
    let output = finish(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    if output.code() == Some(77) {
        println!("skipped: a file system of its own cannot be made here: {output:?}");
        return;
    }
    let Output { status, stdout, stderr } = output;
    assert!(status.success(), "{options}: {status}\n{stdout}{stderr}");
}

#[test]
fn a_command_that_could_not_be_kept_is_told_so_before_it_runs() {
    let script = r#"
        fill
        like "$(says "$NAVLOCK" run db touch ran)" "69 *No space left on device*"
        test ! -e ran
        # Nobody waits for it, and it left nothing.
        rm -f "$D"/f*
        like "$(says "$NAVLOCK" query)" "0 "
        like "$(ls "$D/sock.clients")" ""
        like "$(says "$NAVLOCK" run db touch ran)" "0 "
        test -e ran"#;
    on_a_small_disk(BYTES, script);
    on_a_small_disk(FILES, script);
}

#[test]
fn a_command_does_without_where_there_is_no_room_if_that_was_asked() {
    let script = r#"
        fill
        like "$(says "$NAVLOCK" run db echo ran)" "69 *do without by --close"
        like "$(says "$NAVLOCK" run --close db echo ran)" "0 ran""#;
    on_a_small_disk(BYTES, script);
}

#[test]
fn a_query_is_answered_although_the_disk_is_full() {
    let script = r#"
        mkfifo "$D/go"
        "$NAVLOCK" run db sh -c 'read line <"$D/go"' >/dev/null 2>&1 &
        eventually shows "*held*db*"
        fill
        like "$(says "$NAVLOCK" query)" "0 *held*db*"
        like "$(says "$NAVLOCK" daemon status)" "0 *"
        like "$("$NAVLOCK" doctor || :)" "*file system: *; make room there*broker: process*answers: after*"
        echo >"$D/go"
        wait"#;
    on_a_small_disk(BYTES, script);
    on_a_small_disk(FILES, script);
}

#[test]
fn a_command_that_waited_while_the_disk_filled_holds_by_itself() {
    let script = r#"
        mkfifo "$D/first" "$D/second" "$D/runs"
        # Not kept in a file, which would make room when it goes.
        "$NAVLOCK" run --close db sh -c 'read line <"$D/first"' >/dev/null 2>&1 &
        eventually shows "*held*db*"
        "$NAVLOCK" run db sh -c 'echo >"$D/runs"; read line <"$D/second"' >/dev/null 2>&1 &
        waiter=$!
        eventually shows "*pending*db*"
        fill
        echo >"$D/first"
        read line <"$D/runs"
        # Its navlock, and the broker: it is all that is left.
        kill -KILL $waiter
        kill -KILL $(cat "$D/sock.broker.lock")
        like "$(says "$NAVLOCK" query)" "0 *held*db*"
        like "$(says "$NAVLOCK" run -q -o -n db true)" "1 "
        echo >"$D/second"
        eventually shows """#;
    on_a_small_disk(BYTES, script);
}
