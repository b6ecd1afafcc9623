//! What a `navlock run NAME true` costs etcd if the broker runs already: proposals, and how many of them have
//! been made when the command starts.

use std::{
    env,
    time::{Duration, Instant},
};

use super::{
    goal::{self, Goal},
    metrics::Metrics,
    part::{Part, failed},
};
use crate::{
    etcd::{Server, Store},
    harness::{Scale, Summary},
    machine::Machine,
    report::number,
};

/// The first argument of the process that counts proposals: the command that is run.
pub(crate) const COUNT: &str = "etcd-count";

/// How often the command is run.
const TIMES: u32 = 50;

/// How long anything may take.
const TIMEOUT: Duration = Duration::from_secs(10);

pub(super) fn measure(scale: Scale) -> Result<Part, String> {
    let times = if scale == Scale::Quick { 3 } else { TIMES };
    eprintln!("etcd-scale: {times} runs");
    let server = Server::start(Store::Memory)?;
    let machine = Machine::on_etcd(server.endpoint(), Some(0))?;
    // A client that stays, so that the broker has a lease. It is in the bucket in which the command takes its
    // names.
    let client = machine.client(false)?.lock_manager("default");
    let held = client.lock("held").blocking().map_err(failed)?;
    let proposals = || Ok::<_, String>(Metrics::of(server.endpoint())?.proposals());
    let (mut short, mut long, mut before_it, mut took) = (0.0, 0.0, Vec::new(), Vec::new());
    // Each run has a name of its own, so no run differs from the first.
    for nth in 0..times {
        let before = proposals()?;
        let since = Instant::now();
        let output = machine.navlock(&["run", &format!("short {nth}"), "true"]).output();
        took.push(since.elapsed().as_secs_f64() * 1e3);
        if !output.map_err(failed)?.status.success() {
            return Err("a run of true has failed".to_owned());
        }
        settle(&machine)?;
        let between = proposals()?;
        short += between - before;
        let mut run = machine.navlock(&["run", &format!("long {nth}"), "--"]);
        let output = run.arg(env::current_exe().map_err(failed)?).args([COUNT, server.endpoint()]);
        let output = output.output().map_err(failed)?;
        let said = String::from_utf8_lossy(&output.stdout);
        let inside: f64 = said.trim().parse().map_err(|_| {
            format!("the run said {said:?}, {}", String::from_utf8_lossy(&output.stderr))
        })?;
        before_it.push(inside - between);
        settle(&machine)?;
        long += proposals()? - between;
    }
    let [short, long] = [short, long].map(|all| all / f64::from(times));
    let [before_it, took] = [before_it, took].map(|all| Summary::of(all).median);
    drop(held);
    let goals = [
        Goal { what: "proposals for `true`", most: 2.0, measured: short },
        Goal { what: "of these before a command is at work", most: 1.0, measured: before_it },
    ];
    let text = format!(
        "navlock run NAME true, warm broker: {} proposals, {} ms; a command that runs for longer: {}, of which \
         {} before it is at work\n{}",
        number(short),
        number(took),
        number(long),
        number(before_it),
        goal::text(&goals)
    );
    let markdown = format!(
        "What a `navlock run NAME` costs etcd where the broker of the machine has a lease already, each time with \
         another name: means of {times} runs. Who its command is, is written as well once that is known, if it has not \
         ended by then.\n\n\
         | | proposals | before the command is at work |\n|---|---|---|\n| `true` | {} | |\n\
         | one that asks etcd for its numbers, some milliseconds | {} | {} |\n\n{}",
        number(short),
        number(long),
        number(before_it),
        goal::markdown(&goals)
    );
    Ok((text, markdown))
}

/// Waits until etcd knows what has ended, by a query that comes after it.
fn settle(machine: &Machine) -> Result<(), String> {
    let since = Instant::now();
    loop {
        let said = machine.navlock(&["query", "--json"]).output().map_err(failed)?;
        if String::from_utf8_lossy(&said.stdout).lines().count() == 1 {
            return Ok(());
        }
        if since.elapsed() > TIMEOUT {
            return Err(format!(
                "the run does not end: {}{}",
                String::from_utf8_lossy(&said.stdout),
                String::from_utf8_lossy(&said.stderr)
            ));
        }
    }
}

/// The command that is run: prints how many proposals there were.
///
/// # Errors
///
/// If etcd does not say.
pub(crate) fn count(mut args: impl Iterator<Item = String>) -> Result<(), String> {
    let endpoint = args.next().ok_or("where is etcd?")?;
    println!("{}", Metrics::of(&endpoint)?.proposals());
    Ok(())
}
