//! `navlock clients`: who uses the broker.

use std::{io, process::ExitCode};

use clap::Args;
use navlock::{Error, Look, LookOptions};

use super::Context;
use crate::{
    client_rows::{ClientRow, client_rows, columns},
    exit::{Failure, answer},
    terminal,
    text_table::{GOOD, POOR, render},
};

/// Shows the processes that use the broker, and how much each holds and waits for.
#[derive(Debug, Args)]
#[command(after_long_help = "\
STATE is one of these:
  connected  the client is connected to the broker
  orphaned   the process was killed; its command goes on and keeps the locks
  sleeping   the client was connected to the broker before this one, lives, and has not come back
  elsewhere  a process of another machine; it has no AGE

With --json each line is one object. It has pid, state, held, pending, owned, buckets, agents, and
unless its state is elsewhere, ageMs. Each agent has clientId and bucket, and these as far as they
are known:
  pid, command, user, host, why, meta")]
pub(crate) struct ClientsArgs {
    /// Write one JSON object a line.
    #[arg(long)]
    json: bool,
}

pub(super) fn clients(context: &Context, args: &ClientsArgs) -> Result<ExitCode, Failure> {
    context.tell_if_secluded();
    let overview =
        Look::once(context.place.clone(), LookOptions::default()).map_err(Error::from)?;
    let clients = client_rows(&overview);
    let text = if args.json {
        clients.iter().map(|client| client.json().to_string() + "\n").collect()
    } else if clients.is_empty() {
        String::new()
    } else {
        let widest = terminal::size(&io::stdout()).map(|(columns, _)| columns);
        let style =
            |client: &ClientRow<'_>| if client.state() == "connected" { GOOD } else { POOR };
        render(&columns(), &clients, style, widest, terminal::colours(context.colour))
    };
    answer(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::examples::{Examples, Flag, check_examples};

    impl Examples for ClientsArgs {
        const LINES: &'static [&'static str] = &["clients {}"];

        const FLAGS: &'static [Flag<Self>] = &[(&["--json"], |clients| clients.json)];
    }

    #[test]
    fn each_flag_means_what_its_example_says() {
        check_examples::<ClientsArgs>();
    }
}
