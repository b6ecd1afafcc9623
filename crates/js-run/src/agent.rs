//! An agent: a virtual machine, its thread and its event loop.

use std::{
    io::{Write, stderr},
    path::{Path, PathBuf},
    process::{self, ExitCode},
    rc::Rc,
    sync::Arc,
    task::{Context, Waker},
    thread,
};

use crate::{
    args::Args,
    host::Host,
    locks::Locks,
    mailbox::Mailbox,
    shared::{Role, Shared, on_thread},
    vm::{Engine, Failure, Setup, Vm},
};

/// The exit code of a program whose top level waits for what can never come. Node uses the same
/// code.
const NEVER: i32 = 13;

/// Runs the program.
pub(crate) fn run_main(args: Args) -> ExitCode {
    match args.engine {
        #[cfg(feature = "boa")]
        Engine::Boa => main_of::<crate::vm::Boa>(args),
        #[cfg(feature = "quickjs")]
        Engine::QuickJs => main_of::<crate::vm::QuickJs>(args),
    }
}

fn main_of<V: Vm>(args: Args) -> ExitCode {
    let opened = Locks::open(&args).and_then(|locks| Ok((locks, absolute(&args.script)?)));
    let (locks, script) = match opened {
        Ok(opened) => opened,
        Err(error) => return fail(&error),
    };
    let shared = Arc::new(Shared {
        engine: args.engine,
        title: V::ENGINE,
        locks,
        run_worker: |shared, role, mailbox| run::<V>(shared, role, mailbox).map(drop),
    });
    let role = Role::Main { script, arguments: args.arguments };
    let agent = on_thread("main", move || run::<V>(shared, role, &Arc::default()));
    // Anything that still runs, such as a worker that could not be stopped, ends with the process.
    let code = match agent.map(thread::JoinHandle::join) {
        Ok(Ok(Ok(Finished::Done))) => 0,
        Ok(Ok(Ok(Finished::Waits))) => {
            complain("the top level of the script waits for what can never come");
            NEVER
        }
        Ok(Ok(Err(failure))) => {
            complain(&failure.to_string());
            1
        }
        // The panic has printed its own message.
        Ok(Err(_)) => 101,
        Err(error) => return fail(&format!("there is no room for a thread: {error}")),
    };
    process::exit(code)
}

fn absolute(script: &Path) -> Result<PathBuf, String> {
    let cannot = |error| format!("cannot read the script {}: {error}", script.display());
    script.canonicalize().map_err(cannot)
}

fn complain(what: &str) {
    // If the error output is closed, there is nobody to tell.
    let _ = writeln!(stderr(), "navlock-js-run: {what}");
}

fn fail(what: &str) -> ExitCode {
    complain(what);
    ExitCode::from(2)
}

/// How an agent has ended without an error.
enum Finished {
    Done,
    /// The top level of its script still waits.
    Waits,
}

/// Runs an agent to its end. Everything that the agent has is released on return.
fn run<V: Vm>(
    shared: Arc<Shared>,
    role: Role,
    mailbox: &Arc<Mailbox>,
) -> Result<Finished, Failure> {
    let script = role.script().to_owned();
    let locks = shared.locks.lock_manager();
    let host = Rc::new(Host::new(Arc::clone(&shared), role, Arc::clone(mailbox)));
    let (asked, stop) = (Rc::clone(&host), Arc::clone(&mailbox.stop));
    let vm = V::new(Setup {
        locks,
        host: Rc::new(move |op, text| asked.call(op, text.unwrap_or_default())),
        open: Rc::new(move |kind, name| shared.locks.elsewhere(kind, name)),
        stop,
    });
    let outcome = vm.and_then(|mut vm| {
        host.judge(vm.import(&script))?;
        turn(&mut vm, &host, mailbox)?;
        Ok(if vm.is_importing() && !host.is_closed() { Finished::Waits } else { Finished::Done })
    });
    match outcome {
        // The thread that has stopped the agent expects its end.
        Err(_) if mailbox.is_stopped() => Ok(Finished::Done),
        outcome => outcome,
    }
}

/// The event loop. It runs one task of each source in turn, so that no source delays the others for
/// long.
fn turn<V: Vm>(vm: &mut V, host: &Host, mailbox: &Arc<Mailbox>) -> Result<(), Failure> {
    let waker = Waker::from(Arc::clone(mailbox));
    while !host.is_closed() && !mailbox.is_stopped() {
        let mut is_idle = true;
        if vm.poll_locks(&mut Context::from_waker(&waker)).is_ready() {
            is_idle = false;
            host.judge(vm.run_lock_task())?;
        }
        if let Some(event) = mailbox.take().filter(|_| !host.is_closed()) {
            is_idle = false;
            host.forget(event.over);
            host.judge(vm.deliver(&event.text))?;
        }
        let due = host.timers().take_due().filter(|_| !host.is_closed());
        if let Some(number) = due {
            is_idle = false;
            host.judge(vm.deliver(&number.to_string()))?;
        }
        if is_idle {
            if !vm.is_waiting() && !host.keeps_alive() {
                return Ok(());
            }
            let due = host.timers().next_due();
            mailbox.wait(due);
        }
    }
    Ok(())
}
