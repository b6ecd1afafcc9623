//! `navlock web`: a page that shows who holds and who waits.

mod args;
mod socket;

use std::{
    io,
    net::{SocketAddr, TcpListener},
    process::ExitCode,
    sync::{Arc, OnceLock},
};

use navlock_platform::signal::before_end;

pub(crate) use self::args::WebArgs;
use self::socket::SocketFile;
use super::{Context, meeting::not_shown};
use crate::{
    exit::{Failure, UNREACHABLE, answer},
    web::{Listener, Web, browser::Entry},
};

pub(super) fn web(context: &Context, args: &WebArgs) -> Result<ExitCode, Failure> {
    context.tell_if_secluded();
    if let Some(others) = not_shown(context) {
        context.verbosity.tell(others);
    }
    let (listener, socket) = listen(args)?;
    let failed =
        |error: io::Error| Failure::new(UNREACHABLE, format_args!("cannot serve: {error}"));
    let entry = Arc::new(OnceLock::<Entry>::new());
    let bucket = Some(&*context.bucket).filter(|bucket| *bucket != "default");
    let place = context.place.clone();
    let web =
        Web::new(listener, place, bucket, args.allow_steal, Arc::clone(&entry)).map_err(failed)?;
    let address = web.address();
    // Nobody can come in before the page is served. At that time, it is known which file has to be
    // removed.
    if args.open {
        match Entry::new(&context.place, &address) {
            Ok(made) => drop(entry.set(made)),
            Err(error) => context.verbosity.tell(format_args!(
                "no browser is opened, as there is no place for a file that has it go there ({error}): open \
                 the address"
            )),
        }
    }
    end_on_signals(socket, Arc::clone(&entry)).map_err(failed)?;
    answer(format!("{address}\n"))?;
    if let Some(path) = &args.unix {
        context.verbosity.tell(format_args!("served at the socket {}", path.display()));
    }
    if let Some(entry) = entry.get() {
        entry.open(context.verbosity);
    }
    web.serve().map_err(failed)?;
    Ok(ExitCode::SUCCESS)
}

/// Where the page is served, and the file to remove when the page ends.
fn listen(args: &WebArgs) -> Result<(Listener, Option<SocketFile>), Failure> {
    if let Some(path) = &args.unix {
        let listener = socket::listen(path);
        return listener
            .map(|(listener, file)| (Listener::Unix(listener), Some(file)))
            .map_err(|error| cannot_listen(format_args!("{}", path.display()), &error));
    }
    let address = SocketAddr::new(args.address, args.port);
    let listener = TcpListener::bind(address)
        .and_then(|listener| Ok(Listener::Tcp(listener.local_addr()?, listener)));
    listener
        .map(|listener| (listener, None))
        .map_err(|error| cannot_listen(format_args!("{address}"), &error))
}

fn cannot_listen(place: std::fmt::Arguments<'_>, error: &io::Error) -> Failure {
    let else_what = match error.kind() {
        io::ErrorKind::AddrInUse => "; something else does, choose another one",
        _ => "",
    };
    Failure::new(UNREACHABLE, format_args!("cannot listen at {place}: {error}{else_what}"))
}

/// Removes these files when a signal ends this process.
fn end_on_signals(socket: Option<SocketFile>, entry: Arc<OnceLock<Entry>>) -> io::Result<()> {
    if socket.is_none() && entry.get().is_none() {
        return Ok(());
    }
    before_end(move || {
        socket.iter().for_each(SocketFile::remove);
        entry.get().into_iter().for_each(Entry::remove);
    })
}
