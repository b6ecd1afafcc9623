//! The files that are made from the definition of the command line.

use std::fs;

use crate::sandbox::Sandbox;
#[cfg(unix)]
use crate::sandbox::finish;

#[test]
fn there_are_completions_for_shells() {
    let sandbox = Sandbox::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = sandbox.written(&["completions", shell]);
        assert!(script.contains("navlock") && script.contains("on-lost"), "{shell}");
    }
    let output = sandbox.output(&["completions", "tcsh"]);
    assert_eq!(output.code(), Some(64));
    assert_eq!(output.stderr.lines().count(), 1);
}

#[test]
#[cfg(unix)]
fn a_script_of_completions_is_one_that_bash_takes() {
    let sandbox = Sandbox::new();
    let script = "eval \"$(\"$NAVLOCK\" completions bash)\" && complete -p navlock";
    if let Ok(output) = sandbox.program("bash").args(["-c", script]).output() {
        assert!(output.status.success(), "{output:?}");
    }
}

#[test]
fn there_is_a_page_for_each_subcommand() {
    let sandbox = Sandbox::new();
    assert!(sandbox.written(&["man"]).contains(".TH NAVLOCK 1"));
    assert!(sandbox.written(&["man", "run"]).contains(".TH NAVLOCK-RUN 1"));
    assert!(sandbox.written(&["man", "daemon", "stop"]).contains(".TH NAVLOCK-DAEMON-STOP 1"));
    assert_eq!(sandbox.code(&["man", "rum"]), 64);
    let pages = sandbox.path("pages");
    fs::create_dir(&pages).unwrap();
    sandbox.written(&["man", "--output", pages.to_str().unwrap()]);
    for page in ["navlock.1", "navlock-run.1", "navlock-daemon-status.1", "navlock-doctor.1"] {
        assert!(pages.join(page).exists(), "{page}");
    }
    assert_eq!(sandbox.code(&["man", "--output", "no-such-directory"]), 1);
}

#[test]
#[cfg(unix)]
fn a_reader_of_the_output_that_stops_reading_is_no_failure() {
    let sandbox = Sandbox::new();
    for arguments in ["man run", "completions bash", "doctor", "query"] {
        let script = format!("{{ \"$NAVLOCK\" {arguments} 2>&1; echo $? >code; }} | true");
        let mut command = sandbox.program("sh");
        assert!(finish(command.args(["-c", &script]).spawn().unwrap()).status.success());
        assert_eq!(fs::read_to_string(sandbox.path("code")).unwrap(), "0\n", "{arguments}");
    }
}
