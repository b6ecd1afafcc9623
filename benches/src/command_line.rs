//! The command line.

#[cfg(feature = "embedded")]
use crate::embedded;
use crate::{
    args::{Args, Family},
    broker, etcd, etcd_scale,
    harness::{Row, Scale},
    looking, postgres, rows,
};

const USAGE: &str = "\
usage: navlock-benches in-process|broker|looking|etcd|etcd-scale|postgres|embedded [--rounds N] [--only ROW] [--quick] [--markdown FILE] [--splice FILE]
  in-process       locks between the threads and tasks of one process
  broker           locks between the processes of one machine
  looking          what it costs others that somebody looks
  etcd             locks between machines
  etcd-scale       what many names and many machines cost
  postgres         locks between machines that share a PostgreSQL
  embedded         in JavaScript engines (if built with the feature `embedded`)
  --rounds N       how often each contender is measured (7; 21 of broker and looking)
  --only ROW       one row, or `memory`
  --quick          tiny counts: shows that everything runs, the figures mean nothing
  --markdown FILE  write the report as a section of Markdown
  --splice FILE    put that section between its markers in FILE";

impl Family {
    fn parse(word: Option<&str>) -> Option<Self> {
        match word? {
            "in-process" => Some(Self::InProcess),
            "broker" => Some(Self::Broker),
            "looking" => Some(Self::Looking),
            "etcd" => Some(Self::Etcd),
            "etcd-scale" => Some(Self::EtcdScale),
            "postgres" => Some(Self::Postgres),
            #[cfg(feature = "embedded")]
            "embedded" => Some(Self::Embedded),
            _ => None,
        }
    }

    /// How many rounds it takes to get a median that another run confirms.
    const fn rounds(self) -> usize {
        match self {
            Self::InProcess | Self::Etcd | Self::Postgres => 7,
            // Costs that grow with the number of names would show in a single round.
            Self::EtcdScale => 1,
            #[cfg(feature = "embedded")]
            Self::Embedded => 7,
            Self::Broker | Self::Looking => 21,
        }
    }

    fn row_ids(self) -> Vec<&'static str> {
        match self {
            Self::InProcess => rows::all().iter().map(|row| row.id).chain(["memory"]).collect(),
            Self::Broker => broker::ROWS.to_vec(),
            Self::Looking => looking::ROWS.to_vec(),
            Self::Etcd => etcd::ROWS.to_vec(),
            Self::EtcdScale => etcd_scale::ROWS.to_vec(),
            Self::Postgres => postgres::ROWS.to_vec(),
            #[cfg(feature = "embedded")]
            Self::Embedded => embedded::ROWS.to_vec(),
        }
    }
}

impl Args {
    /// # Errors
    ///
    /// What is wrong with the arguments, and which ones there are.
    pub(crate) fn parse(mut args: impl Iterator<Item = String>) -> Result<Self, String> {
        let family = Family::parse(args.next().as_deref()).ok_or_else(|| USAGE.to_owned())?;
        let mut parsed = Self {
            family,
            rounds: 0,
            scale: Scale::Full,
            only: None,
            markdown: None,
            splice: None,
        };
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
            parsed.rounds = if parsed.scale == Scale::Quick { 1 } else { family.rounds() };
        }
        let known = family.row_ids();
        if !known.iter().any(|row| parsed.wants(row)) {
            return Err(format!("no such row; there are {}", known.join(", ")));
        }
        if parsed.splice.is_some() && (parsed.only.is_some() || parsed.scale == Scale::Quick) {
            return Err(
                "--splice replaces the whole section: run it without --only and --quick".to_owned()
            );
        }
        Ok(parsed)
    }

    /// The rows of [`Family::InProcess`].
    pub(crate) fn rows(&self) -> Vec<Row> {
        rows::all().into_iter().filter(|row| self.wants(row.id)).collect()
    }
}
