//! The arguments of `navlock web`.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    path::PathBuf,
};

use clap::Args;

/// Serves a page that shows who holds and who waits, as it happens.
///
/// The command prints the address to open. The address contains a token, and nobody is let in without it. The
/// page is part of the program and loads nothing from elsewhere. It is served to this machine only, until the
/// command is interrupted (exit code 130 in a shell).
#[derive(Debug, Args)]
#[command(after_long_help = "\
The page shows all buckets: who waits for whom, each name with its queue and its holders since
'navlock web' began, deadlocks, clients, and machines that share locks. If --bucket, --project or
NAVLOCK_BUCKET names a bucket that is not \"default\", the page shows that one at first.

The page is read-only, unless --allow-steal is given. It can then take a name from its holders, on
any machine. It shows the holders before it asks, and takes the name from these holders only.

With --open the browser is given a file that leads to the address. The address itself is not given,
because every user of the machine can see the arguments of a program, and the token in the address
lets in everybody who knows it. Only this user can read the file. It is removed when the page is
open. Some browsers may not read the file, as some that come as a snap or flatpak. They show an
error; then open the address.

To see the page from another machine, use ssh:
  ssh -t -L 4000:127.0.0.1:4000 HOST navlock web --port 4000

Programs can read two addresses. They show the token as ?token=TOKEN, or in the header
'Authorization: Bearer TOKEN'.
  /metrics    the broker's numbers, for Prometheus
  /api/state  one JSON object

The object of /api/state has these members. Times are in milliseconds since 1970.
  version, now, socket, host, canSteal
  bucket     the one that the page shows at first, if it is not all
  user       with --system: the user who runs 'navlock web'
  broker     running, none, stopped or failed
  error      what is wrong with a broker that is stopped or failed
  leftOut    how many locks and requests are not shown
  clients    each with id, pid, state and since
  agents     each with the members below
  names      each with the members below
  tree       who waits for whom: trees, each with the members below
  deadlocks  which locks and requests wait for each other, each with the members below
An agent has:
  id, bucket
  client     its client; an agent of another machine has none
  held, pending, owned
             how many locks and requests
  silent     only if its machine has not been heard of: since, and ends, when all that it has ends
  pid, command, user, host, why, keeper, meta
             as far as they are known; keeper is the pid of the navlock that keeps its locks; meta
             is an array of pairs, each an array of key and value
A name has:
  key        a number for the name
  bucket
  name       the first 256 UTF-16 code units
  nameLength
             only if the name is longer: how many UTF-16 code units it has
  held, pending, owned
             its locks and requests, no more than 500 of each
  heldCount, pendingCount
             how many there are
A lock or a request has:
  id, agent, mode, since, fencingToken
  inside     the locks under which it was requested
  taken      of an owned name: how often it was taken without asking
A tree has:
  blocks     how many requests wait for what is in its first row
  cycle      true or false
  rows       each with depth, below (how many rows are below it), key (of its name), held (true or
             false) and entry (the lock or request). Unless depth is 0, a row has why: held, ahead,
             inside, same-agent or inside-agent. A row with depth 0 has stopped if some of its
             processes are stopped: their numbers
  more       how many rows are not shown
A deadlock has:
  certain    true or false
  givesWay   clientId/serial of the request that gives way
  members    each with key, held, why and entry, as in a row
  more       how many members are not shown
  remedies   lines to paste that would end it, each with kind, does, line, and host if the line is
             to be pasted on that host

At most 128 connections are served at a time, and others wait for their turn. A connection that does
not show the token within three seconds is closed.

Exit code: 69 if it cannot listen there.")]
pub(crate) struct WebArgs {
    /// The port.
    ///
    /// Without this option, the system chooses a free port.
    #[arg(
        long,
        value_name = "PORT",
        default_value = "0",
        hide_default_value = true,
        conflicts_with = "unix"
    )]
    pub(super) port: u16,

    /// The address: 127.0.0.1 or `::1`.
    ///
    /// The page is for this machine only, so no other address is taken.
    #[arg(
        long, value_name = "ADDRESS", default_value = "127.0.0.1", conflicts_with = "unix", value_parser = loopback
    )]
    pub(super) address: IpAddr,

    /// Serve the page at a Unix socket instead of a port.
    ///
    /// Only this user can use the socket.
    #[arg(long, value_name = "PATH")]
    pub(super) unix: Option<PathBuf>,

    /// Open the page in your browser.
    ///
    /// The variable BROWSER names the browser. If it is not set, the browser of the desktop is used.
    #[arg(long, conflicts_with = "unix")]
    pub(super) open: bool,

    /// Let the page steal locks.
    #[arg(long)]
    pub(super) allow_steal: bool,
}

fn loopback(text: &str) -> Result<IpAddr, String> {
    let loopback = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
    match text {
        "localhost" => Ok(loopback[0]),
        _ => text.parse().ok().filter(|address| loopback.contains(address)).ok_or_else(|| {
            "the page is for this machine only: give 127.0.0.1 or ::1; from another machine use ssh -L".to_owned()
        }),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use clap::error::ErrorKind;

    use super::*;
    use crate::commands::examples::{Examples, Flag, check_examples, check_refusal, parsed};

    #[test]
    fn only_this_machine_is_served() {
        for good in ["127.0.0.1", "::1", "localhost"] {
            assert!(loopback(good).is_ok(), "{good}");
        }
        for bad in
            ["0.0.0.0", "::", "192.168.0.1", "127.0.0.2", "::ffff:127.0.0.1", "example.com", ""]
        {
            assert!(loopback(bad).is_err(), "{bad}");
        }
    }

    impl Examples for WebArgs {
        const LINES: &'static [&'static str] = &["web {}"];

        const FLAGS: &'static [Flag<Self>] = &[
            (&["--port 4000"], |web| web.port == 4000),
            (&["--address ::1"], |web| web.address == Ipv6Addr::LOCALHOST),
            (&["--unix s"], |web| web.unix.as_deref() == Some(Path::new("s"))),
            (&["--open"], |web| web.open),
            (&["--allow-steal"], |web| web.allow_steal),
        ];
    }

    #[test]
    fn each_flag_means_what_its_example_says() {
        check_examples::<WebArgs>();
    }

    #[test]
    fn the_page_is_served_at_some_port_if_nobody_says_otherwise() {
        let web: WebArgs = parsed("web");
        assert_eq!((web.address, web.port), (Ipv4Addr::LOCALHOST.into(), 0));
        check_refusal("web --address 0.0.0.0", ErrorKind::ValueValidation, &["--address"]);
        check_refusal("web --port 65536", ErrorKind::ValueValidation, &["--port"]);
    }

    #[test]
    fn the_page_is_served_at_a_socket_or_a_port() {
        for (flag, named) in
            [("--port 4000", "--port"), ("--address ::1", "--address"), ("--open", "--open")]
        {
            let line = format!("web --unix s {flag}");
            check_refusal(&line, ErrorKind::ArgumentConflict, &["--unix", named]);
        }
    }
}
