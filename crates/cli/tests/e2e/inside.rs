//! Commands that run inside locks already, and ask for one of these again.

use std::process::Stdio;

use crate::sandbox::{Output, Sandbox, finish};

/// Runs a script in a shell.
fn shell(sandbox: &Sandbox, script: &str) -> Output {
    let mut command = sandbox.program("sh");
    command.args(["-c", script]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    finish(command.spawn().unwrap())
}

/// Ways to run inside an exclusive lock of `db`, before a command.
const WAYS: [&str; 4] = [
    "\"$NAVLOCK\" run db --",
    // The variable is taken away, but not what the system knows.
    "\"$NAVLOCK\" run db -- env -u NAVLOCK_INSIDE",
    "\"$NAVLOCK\" run -F db -- sh -c 'env -u NAVLOCK_INSIDE \"$@\"' -",
    "\"$NAVLOCK\" hold --while-pid $$ db >hold; ",
];

#[test]
fn a_lock_inside_which_a_command_runs_is_refused_to_it_where_it_would_wait_for_itself() {
    let sandbox = Sandbox::new();
    for way in WAYS {
        for asks in ["run db true", "run -s db true", "run -w 60 db true", "run -l a -l db true"] {
            let output = shell(&sandbox, &format!("{way} \"$NAVLOCK\" {asks}"));
            assert_eq!(output.code(), Some(70), "{way} {asks}: {output:?}");
            let told = "navlock: \"db\": this runs inside the lock already";
            assert!(output.stderr.starts_with(told), "{way} {asks}: {output:?}");
        }
        for (asks, code) in [("run -n db true", 1), ("run other true", 0), ("run -l a true", 0)] {
            let output = shell(&sandbox, &format!("{way} \"$NAVLOCK\" {asks}"));
            assert_eq!(output.code(), Some(code), "{way} {asks}: {output:?}");
        }
    }
    for asks in ["wait db", "hold --while-pid $$ db"] {
        let output = shell(&sandbox, &format!("\"$NAVLOCK\" run db sh -c '\"$NAVLOCK\" {asks}'"));
        assert_eq!(output.code(), Some(70), "{asks}: {output:?}");
    }
    let shared = "\"$NAVLOCK\" run -s db \"$NAVLOCK\" run -s db \"$NAVLOCK\" run db true";
    assert_eq!(shell(&sandbox, shared).code(), Some(70));
    let any = "\"$NAVLOCK\" run -l a -l b \"$NAVLOCK\" run --any";
    assert_eq!(shell(&sandbox, &format!("{any} -l b -l a true")).code(), Some(70));
    assert_eq!(shell(&sandbox, &format!("{any} -l b -l c true")).code(), Some(0));
    // A hold that ends by itself keeps nobody for ever.
    let ends = "\"$NAVLOCK\" hold --while-pid $$ --ttl 0.5 db >hold; \"$NAVLOCK\" run db true";
    assert_eq!(shell(&sandbox, ends).code(), Some(0));
    let apart = "\"$NAVLOCK\" run db sh -c 'NAVLOCK_INSIDE=none \"$NAVLOCK\" run -w 0.1 db true'";
    assert_eq!(shell(&sandbox, apart).code(), Some(1));
}

#[test]
fn with_reentrant_a_command_runs_inside_the_lock_that_it_has() {
    let sandbox = Sandbox::new();
    for way in WAYS {
        let script = format!("{way} \"$NAVLOCK\" run --reentrant db \"$NAVLOCK\" inside db");
        let output = shell(&sandbox, &script);
        assert_eq!(output.code(), Some(0), "{way}: {output:?}");
    }
    let script = "\"$NAVLOCK\" run a \"$NAVLOCK\" run --reentrant -l b -l a \
                  sh -c 'echo \"$NAVLOCK_NAME\"; echo \"$NAVLOCK_FENCE\" | wc -l'";
    assert_eq!(shell(&sandbox, script).stdout.replace(' ', ""), "a\nb\n2\n");
    let shared = "\"$NAVLOCK\" run -s db \"$NAVLOCK\" run --reentrant";
    assert_eq!(shell(&sandbox, &format!("{shared} -s db true")).code(), Some(0));
    assert_eq!(shell(&sandbox, &format!("{shared} db true")).code(), Some(70));
    // It takes what it does not have.
    let script = "\"$NAVLOCK\" run --reentrant db sh -c '\"$NAVLOCK\" run -n db true; echo $?'";
    assert_eq!(shell(&sandbox, script).stdout, "1\n");
}

#[test]
fn a_script_can_ask_whether_it_is_inside() {
    let sandbox = Sandbox::new();
    for way in WAYS {
        for (names, code) in [("db", 0), ("other", 1), ("db other", 1)] {
            let output = shell(&sandbox, &format!("{way} \"$NAVLOCK\" inside {names}"));
            assert_eq!(output.code(), Some(code), "{way} {names}: {output:?}");
        }
    }
    // What others hold is not around this.
    let _holder = sandbox.hold(&["db"]);
    assert_eq!(sandbox.code(&["inside", "db"]), 1);
}

#[test]
fn a_command_is_told_all_names_inside_which_it_runs() {
    let sandbox = Sandbox::new();
    let script = "\"$NAVLOCK\" run a \"$NAVLOCK\" run -l c -l b \
                  sh -c 'echo \"$NAVLOCK_NAME\"; echo \"$NAVLOCK_FENCE\" | wc -l'";
    assert_eq!(shell(&sandbox, script).stdout.replace(' ', ""), "a\nc\nb\n3\n");
    let script = "\"$NAVLOCK\" run -s a \"$NAVLOCK\" run b sh -c 'echo $NAVLOCK_MODE'";
    assert_eq!(shell(&sandbox, script).stdout, "shared exclusive\n");
    let script = "\"$NAVLOCK\" run \"$(printf 'a\\nb')\" \"$NAVLOCK\" run c sh -c 'echo ${NAVLOCK_NAME-none}'";
    assert_eq!(shell(&sandbox, script).stdout, "none\n");
}
