//! `navlock doctor`.

#[cfg(unix)]
use std::os::unix::fs::PermissionsExt;
#[cfg(target_os = "linux")]
use std::process::Stdio;
use std::{fs, path::Path};

#[cfg(target_os = "linux")]
use crate::sandbox::finish;
use crate::{
    sandbox::{NAVLOCK, Output, Sandbox, eventually, write},
    system::absolute,
};

/// The level of each check, and the exit code.
fn levels(sandbox: &Sandbox, variables: &[(&str, &str)]) -> (Vec<(String, String)>, i32) {
    let mut command = sandbox.navlock(&["doctor", "--json"]);
    let output = Output::of(command.envs(variables.iter().copied()));
    let lines = output.stdout.lines().map(|line| {
        let check: serde_json::Value = serde_json::from_str(line).unwrap();
        let of = |key: &str| check[key].as_str().unwrap().to_owned();
        (of("what"), of("level"))
    });
    (lines.collect(), output.code().unwrap())
}

fn level(of: &str, (levels, _): &(Vec<(String, String)>, i32)) -> Option<String> {
    levels.iter().find(|(what, _)| what == of).map(|(_, level)| level.clone())
}

#[test]
fn a_good_set_up_is_good_with_and_without_a_broker() {
    let sandbox = Sandbox::new();
    let bin = Path::new(absolute(NAVLOCK)).parent().unwrap();
    let path = [("PATH", bin.to_str().unwrap())];
    let before = levels(&sandbox, &path);
    assert!(sandbox.broker().is_none(), "it has started one");
    assert!(before.0.iter().all(|(_, level)| level == "ok"), "{before:?}");
    let holder = sandbox.hold(&["db"]);
    let with = levels(&sandbox, &path);
    // A slow broker gets a warning, as there may be on a busy machine.
    let answers = level("answers", &with);
    assert!(with.1 == 0 && matches!(answers.as_deref(), Some("ok" | "warn")), "{with:?}");
    assert_ne!(level("broker", &with).as_deref(), Some("fail"));
    holder.release();
    let people = sandbox.written(&["doctor"]);
    assert!(people.lines().all(|line| ["ok  ", "warn"].contains(&&line[..4])), "{people}");
    // Doctor leaves no file behind.
    let files = fs::read_dir(sandbox.path("")).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    assert!(names.into_iter().all(|name| !name.contains("doctor")));
}

#[test]
fn a_wrong_setting_is_named_with_a_remedy() {
    let sandbox = Sandbox::new();
    let wrong = levels(&sandbox, &[("NAVLOCK_BIN", "/no/such/navlock"), ("NAVLOCK_BUKKET", "x")]);
    assert_eq!(wrong.1, 1);
    assert_eq!(level("NAVLOCK_BIN", &wrong).as_deref(), Some("fail"));
    assert_eq!(level("NAVLOCK_BUKKET", &wrong).as_deref(), Some("warn"));
    assert_eq!(level("program", &levels(&sandbox, &[("PATH", "")])).as_deref(), Some("warn"));
}

#[test]
#[cfg(unix)]
fn a_directory_that_lets_others_in_is_named_with_a_remedy() {
    let sandbox = Sandbox::new();
    let open = sandbox.path("open");
    fs::create_dir(&open).unwrap();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
    let socket = open.join("sock");
    let output = sandbox.output(&["doctor", "--socket", socket.to_str().unwrap()]);
    assert_eq!(output.code(), Some(1));
    let said = output.stdout;
    assert!(said.contains("has mode 0777, which lets others in; set NAVLOCK_SOCKET"), "{said}");
}

#[test]
#[cfg(target_os = "linux")]
fn a_process_with_a_private_tmp_is_told_so() {
    if Path::new(NAVLOCK).starts_with("/tmp") {
        println!("skipped: {NAVLOCK} is itself in the /tmp that would be hidden");
        return;
    }
    let sandbox = Sandbox::new();
    let script = r#"mount -t tmpfs none /tmp && mkdir -m 700 /tmp/ours && export NAVLOCK_SOCKET=/tmp/ours/sock
        "$NAVLOCK" doctor; "$NAVLOCK" query; "$NAVLOCK" query -q; "$NAVLOCK" daemon stop"#;
    let mut command = sandbox.program("unshare");
    command.args(["-rm", "sh", "-c", script]).env("NAVLOCK_CONFIG", "/dev/null");
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = finish(command.spawn().unwrap());
    let (shown, said) = (output.stdout, output.stderr);
    if said.contains("unshare") || said.contains("mount:") {
        println!("skipped: no /tmp of our own is to be had: {said}");
        return;
    }
    assert!(shown.contains("warn  private /tmp: this process has a /tmp of its own"), "{shown}");
    assert_eq!(said.matches("has a /tmp of its own").count(), 1, "{said}");
    // Nobody else is warned of this.
    assert!(!sandbox.written(&["doctor"]).contains("private /tmp"));
}

#[test]
#[cfg(target_os = "linux")]
fn surroundings_that_lack_something_are_named_with_the_way_out() {
    if ["/tmp", "/run", "/dev", "/proc"].iter().any(|hidden| Path::new(NAVLOCK).starts_with(hidden))
    {
        println!("skipped: {NAVLOCK} is itself in a directory that would be hidden");
        return;
    }
    let said = |mounts: &str| {
        let sandbox = Sandbox::new();
        let script = format!(
            r#"{mounts} && unset NAVLOCK_SOCKET NAVLOCK_CONFIG && {{ "$NAVLOCK" doctor; echo "code $?"; "$NAVLOCK" run db true; "$NAVLOCK" hold --ttl 1 db; }} 2>&1"#
        );
        let mut command = sandbox.program("unshare");
        command.args(["-rm", "sh", "-c", &script]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let output = finish(command.spawn().unwrap());
        let is_refused = output.stderr.contains("unshare") || output.stdout.contains("mount:");
        (!is_refused).then_some(output.stdout)
    };
    let read_only = "mount -t tmpfs -o ro none /tmp && mount -t tmpfs -o ro none /run";
    let read_only = format!("{read_only} && export NAVLOCK_STATE=/none");
    let Some(read_only) = said(&read_only) else {
        println!("skipped: nothing can be mounted");
        return;
    };
    assert!(read_only.contains("fail  place: ") && read_only.contains("code 1"), "{read_only}");
    assert_eq!(read_only.matches("Read-only file system").count(), 3, "{read_only}");
    let own = "mount -t tmpfs none /tmp && mount -t tmpfs none /run";
    let null = said(&format!("{own} && mount -t tmpfs none /dev")).unwrap();
    assert!(null.contains("fail  /dev/null: ") && null.contains("code 1"), "{null}");
    assert!(null.contains("cannot be started") && !null.contains("no program"), "{null}");
    assert_eq!(null.matches("mknod -m 666 /dev/null c 1 3").count(), 3, "{null}");
    let proc = said(&format!("{own} && mount -t tmpfs none /proc && PATH=/none")).unwrap();
    assert!(proc.contains("warn  /proc: ") && proc.contains("fail  program: "), "{proc}");
    assert_eq!(proc.matches("mount -t proc proc /proc").count(), 3, "{proc}");
}

#[test]
#[cfg(unix)]
fn a_place_that_is_not_ours_is_not_written_to() {
    let sandbox = Sandbox::new();
    let (theirs, link) = (sandbox.path("theirs"), sandbox.path("link"));
    fs::create_dir(&theirs).unwrap();
    std::os::unix::fs::symlink(&theirs, &link).unwrap();
    let before = fs::metadata(&theirs).unwrap().modified().unwrap();
    let output = sandbox.output(&["doctor", "--socket", link.join("sock").to_str().unwrap()]);
    assert_eq!(output.code(), Some(1), "{output:?}");
    let shown = output.stdout;
    assert!(shown.contains("fail  place: ") && !shown.contains("file system:"), "{shown}");
    // Doctor has not written there even for a moment.
    assert_eq!(fs::metadata(&theirs).unwrap().modified().unwrap(), before);
}

#[test]
fn the_socket_that_a_killed_broker_left_is_explained() {
    let sandbox = Sandbox::new();
    sandbox.written(&["daemon", "start"]);
    sandbox.kill_broker();
    eventually("the broker ends", || sandbox.broker().is_none());
    let found = levels(&sandbox, &[]);
    assert_eq!(level("stale socket", &found).as_deref(), Some("warn"), "{found:?}");
    assert_eq!(found.1, 0);
    assert_eq!(sandbox.code(&["run", "db", "true"]), 0);
    assert_eq!(level("stale socket", &levels(&sandbox, &[])), None);
}

#[test]
fn a_fault_inside_a_broker_is_told() {
    let sandbox = Sandbox::new();
    assert!(!sandbox.written(&["doctor"]).contains("faults"));
    fs::create_dir_all(sandbox.path("state")).unwrap();
    let file = sandbox.path("state").join("faults.log");
    write(&file, "@1 process 2: panicked at a.rs:1:1: no\n");
    let said = sandbox.written(&["doctor"]);
    let wanted = format!(
        "warn  faults: one error inside a broker: @1 process 2: panicked at a.rs:1:1: no; report it \
         with {}, then remove that file",
        file.display()
    );
    assert!(said.lines().any(|line| line == wanted), "{said}");
    fs::remove_file(file).unwrap();
}
