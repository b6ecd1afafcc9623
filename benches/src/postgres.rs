//! Locks between machines that share a PostgreSQL, whose data is in memory: nothing that is measured waits for a disk.
//!
//! Machines are connections of threads of this process. In every round each peer is measured once, in an order that is
//! rotated from round to round. The floor is what a row cannot do without, by the same driver: the least that tells
//! others of a lock.

mod floors;
mod repeat;
#[path = "../../crates/postgres/tests/server/mod.rs"]
mod server;

use std::{
    fmt::Write as _,
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::{Duration, Instant},
};

use navlock::{LockManager, PostgresOptions, UserAgent, blocking::block_on};

use self::{
    floors::{advisory, notified, rows, rows_of_machines},
    repeat::{HANDOVERS, MACHINES, TIME_TO_LIVE, WAIT, at_once, each},
    server::Server,
};
use crate::{
    args::Args,
    environment::{Environment, versions},
    harness::{Scale, Summary},
    report::{collect, number},
};

/// How many wait in the crowd, at four machines.
const CROWD: usize = 100;

/// What is measured of every peer that can do it.
struct Row {
    id: &'static str,
    title: &'static str,
    /// Navlock comes first, and then the floor, if there is one.
    peers: &'static [(&'static str, Measure)],
    /// How many times as long as the floor it may take.
    goal: Option<f64>,
}

/// Microseconds for each of so many repetitions, with a name that nobody has used.
type Measure = fn(&Server, &str, usize) -> Result<f64, String>;

/// What `--only` takes.
pub(crate) const ROWS: &[&str] = &["pair", "owned", "machines", "handover", "crowd"];

static ALL: [Row; 5] = [
    Row {
        id: ROWS[0],
        title: "take and release",
        peers: &[
            ("navlock that owns no names", pair),
            ("insert and delete of an unlogged row", rows),
            ("advisory lock", advisory),
        ],
        goal: Some(1.3),
    },
    Row {
        id: ROWS[1],
        title: "the same, of a name that the machine owns",
        peers: &[
            ("navlock", owned),
            ("insert and delete of an unlogged row", rows),
            ("advisory lock", advisory),
        ],
        goal: None,
    },
    Row {
        id: ROWS[2],
        title: "the same by 8 machines, each with a name of its own",
        peers: &[
            ("navlock that owns no names", machines),
            ("insert and delete of an unlogged row", rows_of_machines),
        ],
        goal: Some(1.0 / 0.6),
    },
    Row {
        id: ROWS[3],
        title: "from the release to the grant on another machine",
        peers: &[("navlock", handover), ("update and notify, heard, select", notified)],
        goal: Some(1.4),
    },
    Row {
        id: ROWS[4],
        title: "through the hands of 100 who wait at four machines, each",
        peers: &[("navlock", crowd)],
        goal: None,
    },
];

/// What was measured of a row: microseconds by peer and round.
struct Case {
    row: &'static Row,
    rounds: Vec<Vec<f64>>,
}

/// Measures what is asked for. Returns the report, for people and for docs/figures.md.
///
/// # Errors
///
/// If a peer could not do its part.
pub(crate) fn run(args: &Args) -> Result<(String, String), String> {
    let mut environment = Environment::look();
    let server = Server::start();
    for text in [
        "create unlogged table floor (name text primary key)",
        "create unlogged table turn (n int)",
        "insert into turn values (0)",
    ] {
        server.do_sql(text);
    }
    let version = server.do_sql("select 'PostgreSQL ' || current_setting('server_version')");
    let mut cases = Vec::new();
    for row in ALL.iter().filter(|row| args.wants(row.id)) {
        cases.push(measure_row(row, &server, args)?);
    }
    environment.look_again();
    let mut crates = versions(&["navlock-postgres", "tokio-postgres"]);
    crates.push(version);
    let about = environment.describe(&crates);
    Ok((text(&cases, &about), markdown(&cases, args.rounds, &about)))
}

fn measure_row(row: &'static Row, server: &Server, args: &Args) -> Result<Case, String> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let mut rounds = vec![Vec::new(); row.peers.len()];
    let count = match args.scale {
        Scale::Full => 500,
        Scale::Quick => 20,
    };
    for round in 0..args.rounds {
        eprintln!("{}: round {} of {}", row.id, round + 1, args.rounds);
        for turn in 0..row.peers.len() {
            let at = (round + turn) % row.peers.len();
            let (peer, measure) = row.peers[at];
            // The name is as long as names usually are.
            let name = format!("documents/{}/body", NEXT.fetch_add(1, Ordering::Relaxed));
            let micros = measure(server, &name, count);
            rounds[at].push(micros.map_err(|error| format!("{}: {peer}: {error}", row.id))?);
        }
    }
    Ok(Case { row, rounds })
}

impl Case {
    fn summary(&self, peer: usize) -> Summary {
        Summary::of(self.rounds[peer].clone())
    }

    /// The median of navlock's time as a multiple of the floor's in the same round.
    fn ratio(&self) -> f64 {
        let pairs = self.rounds[0].iter().zip(&self.rounds[1]);
        Summary::of(pairs.map(|(own, floor)| own / floor).collect()).median
    }

    fn outcome(&self) -> String {
        let Some(goal) = self.row.goal else { return "–".to_owned() };
        let ratio = self.ratio();
        let word = if ratio <= goal { "yes" } else { "no" };
        format!("≤ {goal:.2} × floor: {word} ({ratio:.2} ×)")
    }
}

fn text(cases: &[Case], about: &str) -> String {
    collect(|out| {
        for case in cases {
            writeln!(out, "{}: {} (µs)", case.row.id, case.row.title)?;
            for (at, (peer, _)) in case.row.peers.iter().enumerate() {
                let Summary { median, min, max } = case.summary(at);
                writeln!(
                    out,
                    "  {peer:<38} {:>8} {:>17}",
                    number(median),
                    format!("{}–{}", number(min), number(max))
                )?;
            }
            writeln!(out, "  goal {}\n", case.outcome())?;
        }
        writeln!(out, "{about}")
    })
}

fn markdown(cases: &[Case], rounds: usize, about: &str) -> String {
    collect(|out| {
        writeln!(
            out,
            "Locks between machines on one PostgreSQL whose data is in memory, in microseconds: medians (least to most) of \
             {rounds} interleaved rounds. A floor is the least that tells others of a lock, by the same driver.\n"
        )?;
        writeln!(out, "| case | navlock | floor and peers | goal |\n|---|---|---|---|")?;
        for case in cases {
            let said = |at: usize| {
                let Summary { median, min, max } = case.summary(at);
                format!("{} ({}–{})", number(median), number(min), number(max))
            };
            let others = case.row.peers.iter().enumerate().skip(1);
            let others: Vec<_> =
                others.map(|(at, (peer, _))| format!("{peer} {}", said(at))).collect();
            let (title, own) = (case.row.title, said(0));
            writeln!(
                out,
                "| {title} | **{own}** | {} | {} |",
                others.join("<br>"),
                case.outcome()
            )?;
        }
        writeln!(out, "\nMeasured with `cargo xtask bench postgres`: {about}")
    })
}

/// A machine, which owns a name once it has taken it so often.
fn machine(server: &Server, keep_names: u32) -> Result<UserAgent, String> {
    let options =
        PostgresOptions::new(server.url()).time_to_live(TIME_TO_LIVE).keep_names(keep_names);
    block_on(navlock::postgres(options)).map_err(|error| error.to_string())
}

fn locks(server: &Server, keep_names: u32) -> Result<LockManager, String> {
    Ok(machine(server, keep_names)?.lock_manager("bench"))
}

/// Takes and releases a lock so often, and returns microseconds for each.
fn pairs(locks: &LockManager, name: &str, count: usize) -> Result<f64, String> {
    let since = Instant::now();
    for _ in 0..count {
        drop(locks.lock(name).blocking().map_err(|error| error.to_string())?);
    }
    // The last release counts as well.
    block_on(locks.query()).map_err(|error| error.to_string())?;
    Ok(each(since.elapsed(), count))
}

fn pair(server: &Server, name: &str, count: usize) -> Result<f64, String> {
    let locks = locks(server, 0)?;
    // The first one asks for a lease too, and begins to watch.
    pairs(&locks, name, 1)?;
    pairs(&locks, name, count)
}

fn owned(server: &Server, name: &str, count: usize) -> Result<f64, String> {
    let locks = locks(server, 1)?;
    pairs(&locks, name, 5)?;
    pairs(&locks, name, count)
}

/// All begin at once.
fn machines(server: &Server, name: &str, count: usize) -> Result<f64, String> {
    let machines = (0..MACHINES).map(|_| locks(server, 0)).collect::<Result<Vec<_>, _>>()?;
    at_once(count, |nth| {
        let name = format!("{name}/{nth}");
        pairs(&machines[nth], &name, 1)?;
        let (locks, count) = (machines[nth].clone(), count / MACHINES);
        Ok(move || pairs(&locks, &name, count).map(drop))
    })
}

fn handover(server: &Server, name: &str, count: usize) -> Result<f64, String> {
    crate::handover::handover(|| locks(server, 0), name, WAIT, count.min(HANDOVERS))
}

fn crowd(server: &Server, name: &str, _: usize) -> Result<f64, String> {
    let machines = (0..4).map(|_| locks(server, 0)).collect::<Result<Vec<_>, _>>()?;
    let first = machines[0].lock(name).blocking().map_err(|error| error.to_string())?;
    thread::scope(|scope| {
        let waiting: Vec<_> = (0..CROWD)
            .map(|nth| {
                let locks = &machines[nth % machines.len()];
                scope.spawn(move || {
                    locks.lock(name).blocking().map(drop).map_err(|error| error.to_string())
                })
            })
            .collect();
        while block_on(machines[1].query()).map_err(|error| error.to_string())?.pending.len()
            < CROWD
        {
            thread::sleep(Duration::from_millis(20));
        }
        let since = Instant::now();
        drop(first);
        for one in waiting {
            one.join().map_err(|_| "one who waits has failed")??;
        }
        Ok(each(since.elapsed(), CROWD))
    })
}
