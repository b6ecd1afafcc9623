//! A program that carries its broker. It has a `main` of its own, because it is started once more to serve.

#![allow(clippy::unwrap_used, reason = "in a test, to panic is to fail")]
#![cfg_attr(windows, allow(unused, reason = "these programs run on Unix"))]

use std::{env, path::Path, process::Command};

use navlock_broker::{Control, Place, local_blocking, serve_if_asked, stop};
use navlock_core::Error;

/// The variable that says which program this one plays. A broker gets it too.
const ROLE: &str = "NAVLOCK_TEST_ROLE";

fn main() {
    match env::var(ROLE).as_deref() {
        Ok("carries") => {
            serve_if_asked();
            locks().unwrap();
        }
        Ok("carries nothing") => println!("{}", locks().unwrap_err()),
        Ok("careless") => {
            // This forgets that its broker is the program itself.
            if env::var_os("NAVLOCK_SERVE_CARRIED").is_none() {
                serve_if_asked();
            }
            // As a broker, this program says on its error stream what is wrong.
            eprintln!("{}", locks().unwrap_err());
        }
        _ => {
            #[cfg(unix)]
            check();
        }
    }
}

/// Takes a lock by one connection, which another connection is then not granted.
fn locks() -> Result<(), Error> {
    let locks = local_blocking()?.lock_manager("app");
    let _held = locks.lock("db").blocking()?;
    let others = local_blocking()?.lock_manager("app");
    assert!(others.lock("db").if_available().blocking()?.is_none());
    Ok(())
}

/// What this program says in a role, with nothing in its path.
fn play(role: &str, directory: &Path) -> String {
    let mut program = Command::new(env::current_exe().unwrap());
    program.env_clear().env(ROLE, role).env("PATH", directory);
    program.env("NAVLOCK_SOCKET", directory.join("sock")).env("NAVLOCK_STATE", directory);
    program.env("NAVLOCK_CONFIG", directory.join("config.toml"));
    let output = program.output().unwrap();
    let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert!(output.status.success(), "{role}: {said}");
    said
}

#[cfg(unix)]
fn check() {
    let directory = tempfile::tempdir().unwrap();
    let settings = |text: &str| std::fs::write(directory.path().join("config.toml"), text).unwrap();
    settings("");
    let said = play("carries nothing", directory.path());
    assert!(said.contains("there is no program navlock to start it with"), "{said}");
    let said = play("careless", directory.path());
    assert!(said.contains("does not call serve_if_asked() first"), "{said}");

    let said = play("carries", directory.path());
    assert_eq!(said, "");
    let place = Place::at(directory.path().join("sock"));
    let status = Control::connect(&place).unwrap().status().unwrap();
    assert_ne!(status.pid, std::process::id());
    stop(&place).unwrap();
    println!("a program that carries its broker needs no navlock ... ok");
}
