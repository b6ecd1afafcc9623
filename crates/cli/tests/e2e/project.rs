//! The bucket of a folder's project, in which commands, programs in Rust and programs in JavaScript meet.

use std::{fs, path::PathBuf};

use navlock::{BrokerReach, ConnectOptions, LockManager, Place, Project, UserAgent};

use crate::{
    sandbox::{Holder, NAVLOCK, Output, Sandbox, eventually},
    system::{HELD, absolute},
    worker,
};

/// A project with a folder below it.
fn project(sandbox: &Sandbox) -> (PathBuf, PathBuf) {
    let folder = sandbox.path("shop");
    fs::create_dir_all(folder.join("src")).unwrap();
    fs::write(folder.join("package.json"), r#"{ "name": "shop" }"#).unwrap();
    (folder.clone(), folder.join("src"))
}

/// What a command says that is run in this folder.
fn run_in(sandbox: &Sandbox, folder: &PathBuf, line: &str) -> Output {
    let words: Vec<_> = line.split(' ').collect();
    Output::of(sandbox.navlock(&words).current_dir(folder))
}

/// A program in Rust with the locks of a bucket.
fn locks(sandbox: &Sandbox, bucket: &str) -> LockManager {
    let options = ConnectOptions::default().place(Place::at(sandbox.socket()));
    let reach = BrokerReach::connect_blocking(options.program(NAVLOCK)).unwrap();
    UserAgent::with_reach(reach).lock_manager(bucket)
}

#[test]
fn commands_meet_the_programs_of_their_project_wherever_the_option_stands() {
    let sandbox = Sandbox::new();
    let (folder, below) = project(&sandbox);
    let locks = locks(&sandbox, Project::of(&below).unwrap().bucket());
    let guard = locks.lock("db").blocking().unwrap();
    for line in [
        "--project run -n db true",
        "run --project -n db true",
        "run -n --project db true",
        "--project wait -n db",
        "hold -n --ttl 1 db --project",
        "inside --project db",
    ] {
        for folder in [&folder, &below] {
            let output = run_in(&sandbox, folder, line);
            assert_eq!(output.code(), Some(1), "{line}: {output:?}");
        }
    }
    for line in ["query --project --json", "query --json db --project"] {
        let output = run_in(&sandbox, &below, line);
        assert!(output.stdout.contains(r#""db""#), "{line}: {output:?}");
    }
    // Without the option, and behind the command, which has it then, it is another lock.
    for line in ["run -n db true", "run -n db echo --project", "--project run -n other true"] {
        assert_eq!(run_in(&sandbox, &below, line).code(), Some(0), "{line}");
    }
    drop(guard);
    assert_eq!(run_in(&sandbox, &below, "--project run -n db true").code(), Some(0));
}

#[test]
fn the_variable_goes_before_the_folder_and_two_buckets_are_refused() {
    let sandbox = Sandbox::new();
    let (_, below) = project(&sandbox);
    let locks = locks(&sandbox, "red");
    let _guard = locks.lock("db").blocking().unwrap();
    let run = |words: &[&str], variable: &str| {
        let mut command = sandbox.navlock(words);
        Output::of(command.current_dir(&below).env("NAVLOCK_BUCKET", variable))
    };
    assert_eq!(run(&["--project", "run", "-n", "db", "true"], "red").code(), Some(1));
    assert_eq!(run(&["--project", "run", "-n", "db", "true"], "").code(), Some(0));
    for (variable, bucket) in [("", "blue"), ("red", "blue"), ("", "default"), ("red", "default")] {
        let output = run(&["--project", "--bucket", bucket, "run", "-n", "db", "true"], variable);
        output.assert_says(64, "--bucket and --project name two buckets; leave one of them out");
    }
}

#[test]
fn a_folder_that_was_removed_is_told_of_only_where_it_is_needed() {
    let sandbox = Sandbox::new();
    let gone = sandbox.path("gone");
    fs::create_dir(&gone).unwrap();
    let script =
        "rmdir \"$PWD\"; \"$NAVLOCK\" run -n db true && \"$NAVLOCK\" --project run -n db true";
    let mut command = sandbox.program("sh");
    let output = Output::of(command.args(["-c", script]).current_dir(&gone));
    output.assert_says(64, "--project: the working folder cannot be used: ");
}

#[test]
fn a_pipe_in_place_of_a_manifest_is_not_waited_for() {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.path("shop")).unwrap();
    let pipe = sandbox.pipe("package.json");
    fs::rename(pipe, sandbox.path("shop/package.json")).unwrap();
    let output = run_in(&sandbox, &sandbox.path("shop"), "--project run -n db true");
    assert_eq!(output.code(), Some(0), "{output:?}");
}

/// The program that the README shows.
mod readme {
    include!("project/readme.rs");

    pub(crate) fn play(_: &[&str]) {
        main().unwrap();
    }
}

pub(crate) use readme::play;

#[test]
fn the_program_in_the_readme_waits_for_the_command_in_the_readme() {
    let shown = fs::read_to_string("../../README.md").unwrap();
    let program = format!("```rust,no_run\n{}```", include_str!("project/readme.rs"));
    assert!(shown.contains(&program) && shown.contains("navlock --project run db -- "));
    let sandbox = Sandbox::new();
    let (_, below) = project(&sandbox);
    let mut command = sandbox.navlock(&["--project", "run", "db", "--"]);
    command.args(HELD).current_dir(&below);
    let mut holder = Holder::start(command);
    holder.begun();
    let mut program = worker::program(&sandbox, "project::play", "");
    program.current_dir(&below).env("NAVLOCK_BIN", absolute(NAVLOCK));
    let program = std::thread::spawn(move || Output::of(&mut program));
    eventually("the program waits", || {
        let shown = run_in(&sandbox, &below, "query --project --json").stdout;
        shown.contains("\"pending\"")
    });
    holder.release();
    let said = program.join().unwrap();
    assert!(said.stdout.contains("computed 2 under the lock"), "{said:?}");
}
