//! The options of a run.

use std::{path::PathBuf, time::Duration};

pub(crate) const USAGE: &str = "\
usage: navlock-torture [--minutes N] [--reach broker|etcd|postgres] [--seed N] [--without KIND]… [--break]
                       --navlock PROGRAM --logs DIRECTORY [--keep]

  --minutes N      how long; 1, and parts of one are possible
  --reach REACH    where the locks are: broker (the default), or etcd or postgres, which four machines share
  --seed N         the chances of another run
  --without KIND   leaves out a kind of disturbance: kills, stops, full-disk, clock-steps,
                   removed-files, sleepers (holders that are stopped when the broker is
                   killed), members (or the PostgreSQL, its sessions and the pooler), cuts, leaders
                   (that change, as at a failover), compactions (and defragmentations, vacuum and
                   old snapshots), quota (etcd is full), replacements (of a member for good), terms (navlock run is told to end); or of worker: steals, closes, clients, owners,
                   stubborn (does not end when it is told to), shells (that run the command);
                   or delegation: then no name is owned; or owned-names (of a machine,
                   as soon as it has taken them 1, 2 or 3 times; one machine has none)
  --break          one worker works without asking for the lock, and an owner without asking for
                   its own, which has to be found out
  --keep           keeps the logs also when nothing was wrong
";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    Broker,
    Etcd,
    Postgres,
}

/// The kinds of disturbances that can be left out.
pub(crate) const KINDS: [&str; 21] = [
    "kills",
    "stops",
    "full-disk",
    "clock-steps",
    "removed-files",
    "sleepers",
    "members",
    "cuts",
    "leaders",
    "compactions",
    "quota",
    "replacements",
    "steals",
    "closes",
    "clients",
    "owners",
    "delegation",
    "owned-names",
    "stubborn",
    "shells",
    "terms",
];

#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) lasts: Duration,
    pub(crate) reach: Reach,
    pub(crate) seed: u64,
    pub(crate) without: Vec<String>,
    pub(crate) breaks: bool,
    pub(crate) keeps: bool,
    pub(crate) navlock: PathBuf,
    pub(crate) logs: PathBuf,
}

impl Options {
    pub(crate) fn parse(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self {
            lasts: Duration::from_secs(60),
            reach: Reach::Broker,
            seed: 20_250_924,
            without: Vec::new(),
            breaks: false,
            keeps: false,
            navlock: PathBuf::new(),
            logs: PathBuf::new(),
        };
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("{word} needs a value\n{USAGE}"));
            match word.as_str() {
                "--minutes" => {
                    let text = value()?;
                    let minutes = text.parse().ok().map(|minutes: f64| minutes * 60.0);
                    let lasts = minutes.and_then(|secs| Duration::try_from_secs_f64(secs).ok());
                    options.lasts =
                        lasts.ok_or_else(|| format!("--minutes: no number: {text:?}"))?;
                }
                "--reach" => {
                    options.reach = match value()?.as_str() {
                        "broker" => Reach::Broker,
                        "etcd" => Reach::Etcd,
                        "postgres" => Reach::Postgres,
                        other => return Err(format!("--reach: no {other:?}\n{USAGE}")),
                    }
                }
                "--seed" => {
                    let text = value()?;
                    let seed = text.parse();
                    options.seed = seed.map_err(|_| format!("--seed: no number: {text:?}"))?;
                }
                "--without" => {
                    let kind = value()?;
                    if !KINDS.contains(&kind.as_str()) {
                        return Err(format!("--without: no {kind:?}\n{USAGE}"));
                    }
                    options.without.push(kind);
                }
                "--break" => options.breaks = true,
                "--keep" => options.keeps = true,
                "--navlock" => options.navlock = value()?.into(),
                "--logs" => options.logs = value()?.into(),
                _ => return Err(format!("what is {word:?}?\n{USAGE}")),
            }
        }
        if !options.navlock.is_absolute() || !options.logs.is_absolute() {
            return Err(format!("--navlock and --logs need whole paths\n{USAGE}"));
        }
        Ok(options)
    }

    pub(crate) fn has(&self, kind: &str) -> bool {
        debug_assert!(KINDS.contains(&kind));
        !self.without.iter().any(|left_out| left_out == kind)
    }
}
