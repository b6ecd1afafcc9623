//! What a `navlock run NAME true` costs etcd, where the broker is there already: proposals, and of these how
//! many there have been when the command is at work.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use super::{Part, failed, metrics::Metrics};
use crate::{
    etcd::{Server, Store},
    harness::{Scale, Summary},
    report::number,
};

/// The first word of the process that counts proposals: the command that is run.
pub(crate) const COUNT: &str = "etcd-count";

/// How often the command is run.
const TIMES: u32 = 50;

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// A broker with a client that stays.
struct Machine {
    directory: tempfile::TempDir,
    program: PathBuf,
    endpoint: String,
    held: Option<Child>,
}

impl Drop for Machine {
    fn drop(&mut self) {
        if let Some(mut held) = self.held.take() {
            // Its command ends with its input, as it does if we are killed.
            drop(held.stdin.take());
            let _ = held.wait();
        }
        let _ = self.navlock(&["daemon", "stop"]).stdout(Stdio::null()).status();
    }
}

pub(super) fn measure(scale: Scale) -> Result<Part, String> {
    let times = if scale == Scale::Quick { 3 } else { TIMES };
    eprintln!("etcd-scale: {times} runs");
    let server = Server::start(Store::Memory)?;
    let machine = Machine::start(server.endpoint())?;
    let proposals = || Ok::<_, String>(Metrics::of(server.endpoint())?.proposals());
    let (mut short, mut long, mut before_it, mut took) = (0.0, 0.0, Vec::new(), Vec::new());
    // The first of its name is like any other: each has a name of its own.
    for nth in 0..times {
        let before = proposals()?;
        let since = Instant::now();
        let output = machine.navlock(&["run", &format!("short {nth}"), "true"]).output();
        took.push(since.elapsed().as_secs_f64() * 1e3);
        if !output.map_err(failed)?.status.success() {
            return Err("a run of true has failed".to_owned());
        }
        machine.settle()?;
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
        machine.settle()?;
        long += proposals()? - between;
    }
    let [short, long] = [short, long].map(|all| all / f64::from(times));
    let [before_it, took] = [before_it, took].map(|all| Summary::of(all).median);
    let text = format!(
        "navlock run NAME true, warm broker: {} proposals, {} ms; a command that runs for longer: {}, of which \
         {} before it is at work",
        number(short),
        number(took),
        number(long),
        number(before_it)
    );
    let markdown = format!(
        "What a `navlock run NAME` costs etcd where the broker of the machine has a lease already, each time with \
         another name: means of {times} runs. Who its command is, is written as well once that is known, if it has not \
         ended by then.\n\n\
         | | proposals | before the command is at work |\n|---|---|---|\n| `true` | {} | |\n\
         | one that asks etcd for its numbers, some milliseconds | {} | {} |\n",
        number(short),
        number(long),
        number(before_it)
    );
    Ok((text, markdown))
}

impl Machine {
    fn start(endpoint: &str) -> Result<Self, String> {
        let program = env::current_exe().map_err(failed)?.with_file_name("navlock");
        if !program.exists() {
            return Err(format!(
                "there is no {}; 'cargo xtask bench etcd-scale' builds it",
                program.display()
            ));
        }
        let directory = tempfile::tempdir().map_err(failed)?;
        let endpoint = endpoint.to_owned();
        let mut machine = Self { directory, program, endpoint, held: None };
        let held = machine.directory.path().join("held");
        let touch = ["run", "held", "--", "sh", "-c", "echo >\"$1\"; exec cat", "sh"];
        let mut command = machine.navlock(&touch);
        command.arg(&held).stdin(Stdio::piped());
        machine.held = Some(command.spawn().map_err(failed)?);
        until(&held)?;
        Ok(machine)
    }

    fn navlock(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        let folder = self.directory.path();
        // Nothing of whoever measures.
        for (name, _) in env::vars_os()
            .filter(|(name, _)| name.to_str().is_some_and(|name| name.starts_with("NAVLOCK_")))
        {
            command.env_remove(name);
        }
        command.env("NAVLOCK_SOCKET", folder.join("sock")).env("NAVLOCK_ETCD", &self.endpoint);
        command.env("NAVLOCK_STATE", folder).stdin(Stdio::null()).args(words);
        command
    }

    /// Waits until etcd knows what has ended: a query comes after it.
    fn settle(&self) -> Result<(), String> {
        let since = Instant::now();
        loop {
            let said = self.navlock(&["query", "--json"]).output().map_err(failed)?;
            if String::from_utf8_lossy(&said.stdout).lines().count() == 1 {
                return Ok(());
            }
            if since.elapsed() > PATIENCE {
                return Err(format!(
                    "the run does not end: {}{}",
                    String::from_utf8_lossy(&said.stdout),
                    String::from_utf8_lossy(&said.stderr)
                ));
            }
        }
    }
}

fn until(path: &Path) -> Result<(), String> {
    let since = Instant::now();
    while fs::metadata(path).is_err() {
        if since.elapsed() > PATIENCE {
            return Err("the broker does not begin".to_owned());
        }
        thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// The command that is run: says how many proposals there were.
///
/// # Errors
///
/// If etcd does not say.
pub(crate) fn count(mut args: impl Iterator<Item = String>) -> Result<(), String> {
    let endpoint = args.next().ok_or("where is etcd?")?;
    println!("{}", Metrics::of(&endpoint)?.proposals());
    Ok(())
}
