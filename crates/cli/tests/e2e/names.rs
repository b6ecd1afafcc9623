//! Several names, and how names are told from the command.

#[cfg(unix)]
use std::fs;

#[cfg(unix)]
use crate::sandbox::wait;
use crate::sandbox::{Output, Sandbox, eventually, finish};

#[test]
#[cfg(unix)]
fn a_command_is_told_all_names_in_the_order_in_which_they_were_given() {
    let sandbox = Sandbox::new();
    let script = "echo \"$NAVLOCK_NAME\"; echo \"$NAVLOCK_FENCE\"; echo $NAVLOCK_MODE; echo $*";
    let names = ["run", "-l", "b", "-l", "a", "-l", "b"];
    let said = sandbox.written(&[&names[..], &["sh", "-c", script, "x", "--", "y"]].concat());
    let lines: Vec<_> = said.lines().collect();
    let [b, a, fence_b, fence_a, mode, rest] = *lines else { panic!("{said}") };
    assert_eq!([b, a, mode, rest], ["b", "a", "exclusive", "-- y"]);
    // They are taken in the order of the names, not in the given order.
    let (fence_a, fence_b): (u64, u64) = (fence_a.parse().unwrap(), fence_b.parse().unwrap());
    assert_ne!(fence_a, fence_b);
    let holder = sandbox.hold(&["-l", "b", "-l", "a"]);
    assert_eq!(sandbox.query(), ["held a exclusive", "held b exclusive"]);
    holder.release();
}

#[test]
#[cfg(unix)]
fn commands_that_take_the_same_names_in_other_orders_never_wait_for_ever() {
    let sandbox = Sandbox::new();
    let start = |names: &str| {
        let names = names.replace(' ', " -l ");
        let script = format!(
            "for i in 1 2 3 4 5 6 7 8 9 10; do \"$NAVLOCK\" run -l {names} -- \
             sh -c 'read n <counter; echo $((n + 1)) >counter' || exit; done"
        );
        sandbox.program("sh").args(["-c", &script]).spawn().unwrap()
    };
    fs::write(sandbox.path("counter"), "0\n").unwrap();
    let orders = ["a b c", "c b a", "b c a", "c a"];
    for mut worker in orders.map(start) {
        assert!(wait(&mut worker).success());
    }
    assert_eq!(fs::read_to_string(sandbox.path("counter")).unwrap(), "40\n");
}

#[test]
fn without_waiting_all_are_had_or_none() {
    let sandbox = Sandbox::new();
    let holder = sandbox.hold(&["b"]);
    for (code, options) in [(1, &["-n"][..]), (9, &["-n", "-E", "9"]), (1, &["-w", "0"])] {
        let arguments = [&["run"], options, &["-l", "a", "-l", "b", "touch", "ran"]].concat();
        assert_eq!(sandbox.code(&arguments), code, "{options:?}");
    }
    assert!(!sandbox.path("ran").exists());
    assert_eq!(sandbox.query(), ["held b exclusive"]);
    holder.release();
    assert_eq!(sandbox.code(&["run", "-n", "-l", "a", "-l", "b", "touch", "ran"]), 0);
    assert!(sandbox.path("ran").exists());
}

#[test]
fn the_time_given_is_for_all_of_them() {
    let sandbox = Sandbox::new();
    let holder = sandbox.hold(&["b"]);
    // Try longer each time: on a busy machine the first name alone may take as long.
    let says = |time: &&str| {
        let arguments = ["run", "-w", time, "-E", "7", "-l", "a", "-l", "b", "true"];
        let output = sandbox.output(&arguments);
        assert_eq!(output.code(), Some(7));
        let said = output.stderr;
        said.contains(&format!("\"b\" could not be had within {time} s"))
    };
    assert!(["0.2", "2", "20"].iter().any(says));
    assert_eq!(sandbox.query(), ["held b exclusive"]);
    holder.release();
}

#[test]
fn all_of_them_can_be_stolen() {
    let sandbox = Sandbox::new();
    let mut victims = [sandbox.hold(&["a"]), sandbox.hold(&["b"])];
    assert_eq!(sandbox.code(&["run", "--steal", "-l", "a", "-l", "b", "true"]), 0);
    for victim in &mut victims {
        assert_eq!(victim.ended().code(), Some(75));
    }
}

#[test]
fn a_waiter_that_loses_one_lock_while_it_waits_for_another_releases_all() {
    let sandbox = Sandbox::new();
    let holder = sandbox.hold(&["b"]);
    let waiter = sandbox.start(&["run", "-l", "a", "-l", "b", "touch", "ran"]);
    eventually("it waits", || sandbox.query().len() == 3);
    assert_eq!(sandbox.code(&["run", "--steal", "a", "true"]), 0);
    let output = finish(waiter);
    assert_eq!(output.code(), Some(75));
    let said = output.stderr;
    let lost =
        "\"a\": the lock was stolen by another request, before all locks were had; try again";
    assert!(said.contains(lost), "{said}");
    assert!(!sandbox.path("ran").exists());
    assert_eq!(sandbox.query(), ["held b exclusive"]);
    holder.release();
}

#[test]
#[cfg(unix)]
fn a_line_for_the_shell_runs_under_all_names() {
    let sandbox = Sandbox::new();
    for arguments in [
        &["run", "a", "-c", "echo $NAVLOCK_NAME-$0 | cat"][..],
        &["run", "-c", "echo $NAVLOCK_NAME-$0 | cat", "a"],
        &["run", "-c", "echo $NAVLOCK_NAME-$0 | cat", "--", "a"],
    ] {
        let run = |shell: &str| {
            let mut command = sandbox.navlock(arguments);
            String::from_utf8(command.env("SHELL", shell).output().unwrap().stdout).unwrap()
        };
        assert_eq!(run("/bin/sh"), "a-/bin/sh\n", "{arguments:?}");
        assert_eq!(run(""), "a-/bin/sh\n", "{arguments:?}");
    }
    // The script shows whose shell is called, and that it is called with -c.
    let shell = sandbox.path("shell");
    crate::sandbox::write(&shell, "#!/bin/sh\necho \"mine: $*\"\n");
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&shell, executable).unwrap();
    let mut command = sandbox.navlock(&["run", "-c", "exit 3", "-l", "a", "-l", "b"]);
    let output = Output::of(command.env("SHELL", &shell));
    assert_eq!(output.stdout, "mine: -c exit 3\n");
    assert_eq!(sandbox.code(&["run", "-c", "exit 3", "a"]), 3);
}

#[test]
#[cfg(unix)]
fn a_command_with_two_hyphens_of_its_own_is_run_or_refused_and_never_cut() {
    let sandbox = Sandbox::new();
    // flock(1) would take these as three words, of which the last ones are arguments of the first.
    for command in [&["cat", "--", "./ran"][..], &["cat", "-u", "--", "./ran"]] {
        crate::sandbox::write(&sandbox.path("ran"), "#!/bin/sh\necho it ran\n");
        let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(sandbox.path("ran"), executable).unwrap();
        let output = sandbox.output(&[&["run", "db"], command].concat());
        assert_eq!(output.code(), Some(64), "{output:?}");
        assert!(output.stdout.is_empty(), "{output:?}");
        let said = output.stderr;
        for spelling in ["'navlock run db -- cat ", "'navlock run -l db -l cat "] {
            assert!(said.contains(spelling), "{said}");
        }
        for before in [&["run", "db", "--"][..], &["run", "-l", "db"]] {
            let said = sandbox.written(&[before, command].concat());
            assert_eq!(said, "#!/bin/sh\necho it ran\n");
        }
    }
}

#[test]
fn the_form_of_several_names_of_before_is_refused_with_todays() {
    let sandbox = Sandbox::new();
    let output = sandbox.output(&["run", "a", "true", "--", "touch", "ran"]);
    assert_eq!(output.code(), Some(64), "{output:?}");
    assert!(!sandbox.path("ran").exists());
    let said = output.stderr;
    assert!(said.contains("'navlock run -l a -l true -- touch ran' for several locks"), "{said}");
}

#[test]
#[cfg(unix)]
fn of_so_many_names_that_no_variable_could_hold_them_all_are_had() {
    let sandbox = Sandbox::new();
    let names: Vec<_> = (0..20_000).map(|number| format!("name-{number}")).collect();
    let mut command = sandbox.navlock(&["run"]);
    for name in &names {
        command.args(["-l", name]);
    }
    // The command does not get the variables of a lock around it either.
    command.env("NAVLOCK_FENCE", "7").env("NAVLOCK_NAME", "outer");
    let script =
        "echo ${NAVLOCK_FENCE-none} ${NAVLOCK_NAME-none}; \"$NAVLOCK\" query --json | wc -l";
    let output = Output::of(command.args(["sh", "-c", script]));
    assert!(output.status.success(), "{output:?}");
    assert_eq!(output.stdout, "none none\n20000\n");
    // All locks are free again.
    assert_eq!(sandbox.code(&["run", "-w", "20", "-l", "name-0", "-l", "name-19999", "true"]), 0);
}

#[test]
fn a_wait_takes_names_in_either_form() {
    let sandbox = Sandbox::new();
    let holder = sandbox.hold(&["b"]);
    for names in [&["a", "b"][..], &["-l", "a", "-l", "b"], &["-l", "b", "a"]] {
        assert_eq!(sandbox.code(&[&["wait", "-n"], names].concat()), 1, "{names:?}");
    }
    holder.release();
    assert_eq!(sandbox.code(&["wait", "-n", "-l", "a", "b"]), 0);
    assert_eq!(sandbox.code(&["wait", "-n"]), 64);
}

#[test]
fn an_empty_name_is_refused_unless_it_is_meant() {
    let sandbox = Sandbox::new();
    for line in [&["run", "", "true"][..], &["run", "-l", "", "-l", "a", "true"], &["wait", ""]] {
        sandbox.output(line).assert_says(64, "add --empty-name");
    }
    assert_eq!(sandbox.code(&["run", "--empty-name", "", "true"]), 0);
    assert_eq!(sandbox.code(&["wait", "--empty-name", ""]), 0);
}

#[test]
fn a_variable_says_how_long_a_request_waits_unless_an_option_does() {
    let sandbox = Sandbox::new();
    let holder = sandbox.hold(&["db"]);
    let output = |limit: &str, arguments: &[&str]| {
        let mut command = sandbox.navlock(arguments);
        Output::of(command.env("NAVLOCK_TIMEOUT", limit))
    };
    for line in [&["run", "db", "true"][..], &["wait", "db"], &["hold", "--ttl", "1m", "db"]] {
        output("100ms", line).assert_says(1, "within 0.1 s");
    }
    output("1h", &["run", "-n", "db", "true"]).assert_says(1, "is held by");
    output("1h", &["run", "-w", "0.2s", "db", "true"]).assert_says(1, "within 0.2 s");
    output("soon", &["run", "db", "true"])
        .assert_says(64, "NAVLOCK_TIMEOUT: \"soon\": give a time");
    holder.release();
}
