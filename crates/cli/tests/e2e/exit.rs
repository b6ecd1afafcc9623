//! The exit codes.

use crate::sandbox::{Output, Sandbox, write};

#[test]
fn every_way_to_end_has_its_code() {
    let sandbox = Sandbox::new();
    let holder = sandbox.hold(&["held"]);
    write(&sandbox.path("data"), "no program");
    for (code, arguments) in [
        (0, &["run", "db", "true"][..]),
        (0, &["run", "db", "--", "true"]),
        (3, &["run", "db", "-c", "exit 3"]),
        (255, &["run", "db", "-c", "exit 255"]),
        #[cfg(unix)]
        (128 + 15, &["run", "db", "--", "sh", "-c", "kill -TERM $$"]),
        #[cfg(unix)]
        (128 + 9, &["run", "db", "--", "sh", "-c", "kill -KILL $$"]),
        // Exit codes are longer on Windows.
        #[cfg(windows)]
        (0x1234, &["run", "db", "-c", "exit 4660"]),
        (1, &["run", "-n", "held", "true"]),
        (1, &["run", "-w", "0", "held", "true"]),
        (1, &["run", "-w0.1", "held", "true"]),
        (0, &["run", "-n", "-E", "0", "held", "true"]),
        (255, &["run", "-w0.1", "-E255", "held", "true"]),
        (64, &["run", "-E", "256", "db", "true"]),
        (0, &["run", "-w", "0", "db", "true"]),
        (0, &["run", "-w", "0", "--steal", "db", "true"]),
        (64, &["run", "db"]),
        (64, &["run"]),
        (64, &[]),
        (64, &["run", "-s", "-x", "db", "true"]),
        (64, &["run", "-s", "--steal", "db", "true"]),
        (64, &["run", "-w", "soon", "db", "true"]),
        (64, &["run", "-db", "--", "true"]),
        (64, &["run", "--", "-db", "true"]),
        (64, &["query", "--", "-db"]),
        (64, &["run", "db", "--"]),
        (64, &["run", "-c", "true"]),
        (64, &["run", "-c", "true", "db", "--", "true"]),
        (64, &["run", "--on-lost", "cry", "db", "true"]),
        (64, &["run", "--color", "pink", "db", "true"]),
        (126, &["run", "db", "./data"]),
        (126, &["run", "db", "/"]),
        (127, &["run", "db", "no-such-program-here"]),
        (127, &["run", "db", "./no-such-program"]),
        (0, &["--version"]),
        (0, &["run", "--help"]),
        (0, &["query"]),
        (0, &["query", "db"]),
    ] {
        let output = sandbox.output(arguments);
        assert_eq!(output.code(), Some(code), "{arguments:?}: {output:?}");
    }
    holder.release();
    assert_eq!(sandbox.code(&["run", "-n", "db", "true"]), 0, "a failure left the lock held");
}

// Windows has no command lines of that length.
#[test]
#[cfg(unix)]
fn a_request_that_the_broker_refuses_ends_with_the_code_of_wrong_usage() {
    let sandbox = Sandbox::new();
    let output = sandbox.output(&["run", "--bucket", &"b".repeat(70_000), "db", "true"]);
    output.assert_says(64, "the bucket's name has 70000 bytes");
}

#[test]
fn a_victim_of_a_thief_ends_with_75() {
    let sandbox = Sandbox::new();
    let mut victim = sandbox.hold(&["db"]);
    assert_eq!(sandbox.code(&["run", "--steal", "db", "true"]), 0);
    assert_eq!(victim.ended().code(), Some(75));
}

#[test]
#[cfg(unix)]
fn a_signal_to_the_wrapper_reaches_the_command_which_decides() {
    use crate::system::Signal;
    let sandbox = Sandbox::new();
    for signal in [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT] {
        let mut holder = sandbox.hold(&["db"]);
        holder.signal(signal);
        assert_eq!(holder.ended().code(), Some(128 + signal.as_raw()));
    }
}

#[test]
#[cfg(unix)]
fn a_name_that_is_no_text_is_refused() {
    use std::os::unix::ffi::OsStrExt;
    let sandbox = Sandbox::new();
    let mut command = sandbox.navlock(&["run"]);
    command.arg(std::ffi::OsStr::from_bytes(b"\xFF")).arg("true");
    let output = Output::of(&mut command);
    assert_eq!(output.code(), Some(64), "{output:?}");
    assert!(output.stderr.contains("UTF-8"), "{output:?}");
}

#[test]
#[cfg(unix)]
fn without_a_broker_to_be_had_the_code_is_69_and_the_message_says_what_to_do() {
    use std::os::unix::fs::PermissionsExt;

    use crate::sandbox::finish;
    let sandbox = Sandbox::new();
    let open = sandbox.path("open");
    std::fs::create_dir(&open).unwrap();
    std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o777)).unwrap();
    let socket = open.join("sock");
    let child = sandbox.start(&["run", "--socket", socket.to_str().unwrap(), "db", "true"]);
    let output = finish(child);
    assert_eq!(output.code(), Some(69));
    assert_eq!(
        output.stderr,
        format!(
            "navlock: cannot reach the broker at {}: {} has mode 0777, which lets others in; \
             set NAVLOCK_SOCKET to a path in a directory that is yours alone\n",
            socket.display(),
            open.display()
        )
    );
}
