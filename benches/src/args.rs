//! The command line.

use crate::{
    harness::{Row, Scale},
    rows,
};

const USAGE: &str = "\
usage: navlock-benches in-process [--rounds N] [--only ROW] [--quick] [--markdown FILE] [--splice FILE]
  --rounds N       how often each contender is measured (7)
  --only ROW       one row, or `memory`
  --quick          tiny counts: shows that everything runs, the figures mean nothing
  --markdown FILE  write the report as a section of Markdown
  --splice FILE    put that section between its markers in FILE";

/// What is asked for.
pub(crate) struct Args {
    pub(crate) rounds: usize,
    pub(crate) scale: Scale,
    only: Option<String>,
    pub(crate) markdown: Option<String>,
    pub(crate) splice: Option<String>,
}

impl Args {
    /// # Errors
    ///
    /// What is wrong, and how it would be right.
    pub(crate) fn parse(mut args: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut parsed =
            Self { rounds: 0, scale: Scale::Full, only: None, markdown: None, splice: None };
        if args.next().as_deref() != Some("in-process") {
            return Err(USAGE.to_owned());
        }
        while let Some(option) = args.next() {
            let mut value =
                || args.next().ok_or_else(|| format!("{option} needs a value\n{USAGE}"));
            match &*option {
                "--rounds" => {
                    let number = value()?;
                    let rounds = number.parse().ok().filter(|rounds| *rounds > 0);
                    parsed.rounds = rounds
                        .ok_or_else(|| format!("--rounds {number}: not a positive number"))?;
                }
                "--only" => parsed.only = Some(value()?),
                "--quick" => parsed.scale = Scale::Quick,
                "--markdown" => parsed.markdown = Some(value()?),
                "--splice" => parsed.splice = Some(value()?),
                _ => return Err(format!("unknown option {option}\n{USAGE}")),
            }
        }
        if parsed.rounds == 0 {
            parsed.rounds = if parsed.scale == Scale::Quick { 1 } else { 7 };
        }
        if parsed.rows().is_empty() && !parsed.memory() {
            let known: Vec<_> = rows::all().iter().map(|row| row.id).collect();
            return Err(format!("no such row; there are {}, memory", known.join(", ")));
        }
        if parsed.splice.is_some() && (parsed.only.is_some() || parsed.scale == Scale::Quick) {
            return Err(
                "--splice replaces the whole section: run it without --only and --quick".to_owned()
            );
        }
        Ok(parsed)
    }

    pub(crate) fn rows(&self) -> Vec<Row> {
        rows::all().into_iter().filter(|row| self.wants(row.id)).collect()
    }

    pub(crate) fn memory(&self) -> bool {
        self.wants("memory")
    }

    fn wants(&self, row: &str) -> bool {
        self.only.as_deref().is_none_or(|only| only == row)
    }
}
