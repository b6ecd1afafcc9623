//! `navlock query`: who holds and who waits.

use std::{
    io::{self, ErrorKind, Write},
    process::ExitCode,
};

use navlock::{LockInfo, ResourceName, UserAgent, blocking::block_on};

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

/// How wide a name is shown. Whole names are for `--json`: one of a mebibyte would be as wide a
/// column for all the others.
const WIDEST: usize = 48;

fn write_table(rows: &[Row<'_>]) -> io::Result<()> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    if rows.is_empty() {
        return Ok(());
    }
    let cells: Vec<_> = rows
        .iter()
        .map(|(state, info)| (state, clipped(printable(&info.name)), info.mode, info.client_id))
        .collect();
    let width = cells.iter().map(|(_, name, ..)| name.chars().count()).max().unwrap_or(0).max(4);
    writeln!(out, "{:7}  {:width$}  {:9}  CLIENT ID", "STATE", "NAME", "MODE")?;
    for (state, name, mode, client_id) in cells {
        writeln!(out, "{state:7}  {name:width$}  {mode:9}  {client_id}")?;
    }
    out.flush()
}

/// The name without anything that could move the cursor, turn the line around or end it.
fn printable(name: &ResourceName) -> String {
    // Within a name a quote or a backslash is harmless; at its beginning a quote says that the
    // rest is escaped.
    let harmless = |char: char| matches!(char, '"' | '\'' | '\\') || char.escape_debug().len() == 1;
    match name.as_str() {
        Some(text) if !text.is_empty() && !text.starts_with('"') && text.chars().all(harmless) => {
            text.to_owned()
        }
        _ => format!("{name:?}"),
    }
}

fn clipped(mut name: String) -> String {
    if name.chars().count() > WIDEST {
        name = name.chars().take(WIDEST - 1).collect();
        name.push('…');
    }
    name
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_shown_as_it_is_or_quoted_where_that_could_mislead() {
        for (name, shown) in [
            ("db", "db"),
            ("it's a \"name\", \u{e9}", "it's a \"name\", \u{e9}"),
            ("", "\"\""),
            ("a\nb", r#""a\nb""#),
            ("\u{1b}[2J", r#""\u{1b}[2J""#),
            ("a\u{202e}b", r#""a\u{202e}b""#),
            ("a\u{2028}b", r#""a\u{2028}b""#),
            ("\"db\"", r#""\"db\"""#),
        ] {
            assert_eq!(printable(&ResourceName::try_from(name).unwrap()), shown);
        }
    }

    #[test]
    fn a_name_that_is_too_wide_is_clipped() {
        assert_eq!(clipped("é".repeat(48)), "é".repeat(48));
        assert_eq!(clipped("é".repeat(49)), format!("{}…", "é".repeat(47)));
    }
}
