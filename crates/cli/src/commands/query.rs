//! `navlock query`: who holds and who waits.

use std::{
    io::{self, ErrorKind, Write},
    process::ExitCode,
};

use navlock::{LockInfo, UserAgent, blocking::block_on};

use super::connect;
use crate::{args::QueryArgs, exit::Failure};

pub(crate) fn query(args: &QueryArgs) -> Result<ExitCode, Failure> {
    let reach = connect(&args.scope.broker)?;
    let locks = UserAgent::with_reach(reach).lock_manager(&args.scope.bucket);
    let snapshot = block_on(locks.query())?;
    let mut rows: Vec<_> = (snapshot.held.iter().map(|info| ("held", info)))
        .chain(snapshot.pending.iter().map(|info| ("pending", info)))
        .filter(|(_, info)| args.name.as_ref().is_none_or(|name| info.name == *name))
        .collect();
    // Stable: within a name, those who hold come before those who wait, and these as they will be
    // served.
    rows.sort_by(|(_, a), (_, b)| a.name.cmp(&b.name));
    let written = if args.json { write_json(&rows) } else { write_table(&rows) };
    match written {
        // Whoever read it has seen enough.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
        Err(error) => Err(Failure::new(1, format_args!("cannot write the answer: {error}"))),
        Ok(()) => Ok(ExitCode::SUCCESS),
    }
}

type Row<'a> = (&'static str, &'a LockInfo);

fn write_table(rows: &[Row<'_>]) -> io::Result<()> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    if rows.is_empty() {
        return Ok(());
    }
    let cells: Vec<_> = rows
        .iter()
        .map(|(state, info)| (state, printable(info), info.mode, info.client_id))
        .collect();
    let width = cells.iter().map(|(_, name, ..)| name.chars().count()).max().unwrap_or(0).max(4);
    writeln!(out, "{:7}  {:width$}  {:9}  CLIENT ID", "STATE", "NAME", "MODE")?;
    for (state, name, mode, client_id) in cells {
        writeln!(out, "{state:7}  {name:width$}  {mode:9}  {client_id}")?;
    }
    out.flush()
}

/// The name without anything that could move the cursor or end the line.
fn printable(info: &LockInfo) -> String {
    let name = info.name.to_string_lossy();
    if name.is_empty() || name.chars().any(char::is_control) || info.name.as_str().is_none() {
        format!("{:?}", info.name)
    } else {
        name.into_owned()
    }
}

fn write_json(rows: &[Row<'_>]) -> io::Result<()> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    for (state, info) in rows {
        // JSON has no lone surrogates; such a name is shown with U+FFFD in their place.
        let line = serde_json::json!({
            "state": state,
            "name": info.name.to_string_lossy(),
            "mode": info.mode.as_str(),
            "clientId": info.client_id.to_string(),
        });
        writeln!(out, "{line}")?;
    }
    out.flush()
}
