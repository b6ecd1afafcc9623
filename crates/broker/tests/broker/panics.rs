//! What a panic of the daemon itself does.

use std::{
    env,
    os::unix::process::ExitStatusExt,
    process::{Command, Stdio},
};

use navlock_broker::{
    Place,
    daemon::{self, Options},
};

/// The variable that says where the daemon is to panic.
const SOCKET: &str = "NAVLOCK_TEST_PANIC_AT";

#[test]
#[ignore = "is what the process runs that another test starts"]
fn play() {
    let Some(socket) = env::var_os(SOCKET) else { return };
    let user_agent = |first| Ok(daemon::user_agent(first));
    let fault = || panic!("a fault of the daemon");
    let _ = daemon::run(&Place::at(socket), user_agent, &Options::default(), fault);
}

#[test]
fn a_daemon_that_panics_dies_and_frees_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let mut daemon = Command::new(env::current_exe().unwrap());
    daemon.args(["--exact", "panics::play", "--ignored"]);
    daemon.env(SOCKET, directory.path().join("sock")).current_dir(directory.path());
    let ended = daemon.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
    // SIGABRT.
    assert_eq!(ended.signal(), Some(6), "{ended}");
}
