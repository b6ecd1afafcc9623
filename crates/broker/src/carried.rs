//! The broker that a program carries: the program itself, which is started once more to serve.

use std::{
    env,
    error::Error,
    ffi::OsString,
    io::{self, Write},
    process,
    sync::Arc,
};

use navlock_platform::{
    descriptor::{self, Stream},
    inheritance::{self, close_inherited},
    process::leave_terminal,
    signal::told_to_end,
};

use crate::{
    Place,
    buckets::variable_of_own,
    daemon::{self, Options},
    settings_file::ForClients,
    settings_files,
    spawn::{CARRIES, MARKER, READY_LINE},
};

/// Lets this program be its own broker, so that [`local`](crate::local) needs no program `navlock`: if
/// no broker runs, `local` starts this program once more, and this call then serves and does not return.
/// Otherwise it returns at once.
///
/// Call this first in `main`, before there are other threads, and whatever the program's arguments
/// are. `NAVLOCK_BIN` still names another program to start.
///
/// The broker serves all programs of the user, as `navlock daemon run` does. It writes no log and keeps
/// the locks of this machine alone: it refuses to start where the settings ask for a store.
///
/// ```no_run
/// fn main() -> Result<(), navlock::Error> {
///     navlock::serve_if_asked();
///     let locks = navlock::local_blocking()?.lock_manager("my-app");
///     let guard = locks.lock("db").blocking()?;
/// #   drop(guard);
///     Ok(())
/// }
/// ```
pub fn serve_if_asked() {
    if let Ok(program) = env::current_exe() {
        serve_by([program]);
    }
    if env::var_os(MARKER).is_none() {
        return;
    }
    let served = serve();
    if let Err(why) = &served {
        // The client that has started this process reads it.
        let _ = writeln!(io::stderr(), "navlock: {why}");
    }
    process::exit(i32::from(served.is_err()));
}

/// Lets this program be its own broker, as [`serve_if_asked`] does, where more than the program itself is needed
/// to start it once more: `command` is a program and its arguments, and what they start calls
/// [`serve_if_asked`] first. This is for programs that an interpreter runs. Only the first command counts.
///
/// ```no_run
/// navlock::serve_by(["/usr/bin/python3", "-c", "import my_addon; my_addon.serve()"]);
/// ```
pub fn serve_by<W: Into<OsString>>(command: impl IntoIterator<Item = W>) {
    let _ = CARRIES.set(command.into_iter().map(Into::into).collect());
}

fn serve() -> Result<(), Box<dyn Error + Send + Sync>> {
    close_inherited()?;
    inheritance::leave(true);
    leave_terminal();
    let place = Place::from_env()?;
    if place.store().is_some() || variable_of_own().is_some() {
        let why = "the settings ask for a store, which the broker that a program carries does not use; \
                   install navlock, and set NAVLOCK_BIN to its path";
        return Err(why.into());
    }
    let mut delegate = None;
    for (path, text) in settings_files::all(settings_files::chosen()?.as_deref())? {
        let said: ForClients = settings_files::parse(&path, &text)?;
        delegate = delegate.or(said.delegate);
    }
    let delegate = delegate.unwrap_or(true);
    let state = settings_files::state_directory();
    let mut options = Options { state, delegate, ..Options::default() };
    let starter = env::var("NAVLOCK_STARTED_BY").unwrap_or_default();
    let starter = format!("{starter}, a client that found none and carries it");
    options.details.push(("started by".to_owned(), starter));
    options.end = Some(Arc::new(told_to_end()?));
    let user_agent = |first| Ok(daemon::user_agent(first));
    daemon::run(&place, user_agent, &options, || {
        let _ = writeln!(io::stdout(), "{READY_LINE}");
        let _ = descriptor::leave(&[Stream::Input, Stream::Output, Stream::Error]);
    })?;
    Ok(())
}
