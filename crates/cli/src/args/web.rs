//! `navlock web`.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    path::PathBuf,
};

use clap::Args;

/// Serves a page that shows who holds and who waits, as it happens.
///
/// It prints the address to open, with a token in it without which nobody is let in. The page is in the
/// program and asks nobody else for anything. It is served to this machine only, until it is interrupted
/// (exit code 130 in a shell).
#[derive(Debug, Args)]
#[command(after_long_help = "\
The page shows all buckets: who waits for whom, each name with its queue and who has held it since
'navlock web' began, deadlocks, clients, and with etcd the machines. It is read-only, but with
--allow-steal: then it can take a name from those holders whom it has shown before it asks, and from
nobody else, on whatever machine they are.

--open gives the browser no address but a file that goes there, readable for this user alone and
removed when the page is open: every user of the machine can see with what a program is started, and
the token lets in whoever knows it. A browser that may not read files there (as some that come as a
snap or flatpak) shows an error; then open the address.

From another machine, by ssh: ssh -t -L 4000:127.0.0.1:4000 HOST navlock web --port 4000

For programs there are, with the token as ?token=TOKEN or in 'Authorization: Bearer TOKEN':
  /api/state   one JSON object: version, now (times are in milliseconds since 1970), broker
               (running, none, stopped or failed with error), socket, host, canSteal;
               clients: id, pid, state, since;
               agents: id, bucket, client (not those of other machines), held, pending, owned (how
               many), silent (where its machine has not been heard of: since, and when what it has
               ends), and as far as they are known pid, command, user, host, why, meta;
               names: key (a number for the name), bucket, name (the first 256 characters;
               nameLength says how many there are), held, pending and owned, each with id, agent,
               mode, since, fencingToken, inside (the locks under which it was requested), taken;
               heldCount, pendingCount (no more than 500 of them are listed);
               tree: who waits for whom (stopped: those processes of the first in it that are);
               deadlocks: who wait for each other, with remedies: lines to paste
  /metrics     the broker's numbers, for Prometheus

No more than 128 connections are served at a time. Who does not show the token within 3 seconds is
hung up on, and at once if there is no room for who comes; if all have shown it, who comes then is
refused (503, if not too many come).

Exit codes: 69 if it cannot listen there.")]
pub(crate) struct WebArgs {
    /// The port. Without this, a port that is free.
    #[arg(
        long,
        value_name = "PORT",
        default_value = "0",
        hide_default_value = true,
        conflicts_with = "unix"
    )]
    pub(crate) port: u16,

    /// The address: 127.0.0.1 or `::1`.
    ///
    /// The page is for this machine only, so no other address is taken.
    #[arg(
        long, value_name = "ADDRESS", default_value = "127.0.0.1", conflicts_with = "unix", value_parser = loopback
    )]
    pub(crate) address: IpAddr,

    /// Serve the page at a Unix socket instead of a port.
    ///
    /// Only this user can use the socket.
    #[arg(long, value_name = "PATH")]
    pub(crate) unix: Option<PathBuf>,

    /// Open the page in your browser.
    ///
    /// The browser is what the variable BROWSER names, or else that of the desktop.
    #[arg(long, conflicts_with = "unix")]
    pub(crate) open: bool,

    /// Let the page steal locks.
    #[arg(long)]
    pub(crate) allow_steal: bool,
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
    use super::*;

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
}
