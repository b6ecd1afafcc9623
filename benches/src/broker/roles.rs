//! The roles of the participants. The process that starts a participant names its role by a word.

use std::{
    ffi::OsStr,
    hint::black_box,
    io,
    os::unix::process::CommandExt,
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use navlock::blocking::block_on;
use rustix::{
    process::{Signal, set_parent_process_death_signal},
    time::{ClockId, clock_gettime},
};

use super::{
    crowd,
    layout::pin,
    memory,
    participant::{Participant, wait_for_line, write_line},
    peer::{Client, Peer, Turn},
    row::Row,
};

/// How long processes take a lock in turn at least. As long as only one of them is there, it may own the
/// name, and would be done with its share in no time.
const TOGETHER: Duration = Duration::from_millis(50);

/// How many locks there are when a process asks who has what.
const MANY: usize = 1000;

/// Runs a participant: on one CPU, until the process that started it ends.
pub(super) fn take_part(args: &[String]) -> io::Result<()> {
    let wrong = || io::Error::other("these words make no sense");
    let [cpu, role, args @ ..] = args else {
        return Err(wrong());
    };
    pin(cpu.parse().map_err(|_| wrong())?)?;
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let peer = |id: &str| Peer::parse(id).ok_or_else(wrong);
    match (role.as_str(), args) {
        ("exec", [program, arguments @ ..]) => {
            // The program puts its files and its children in order first.
            set_parent_process_death_signal(Some(Signal::INT))?;
            Err(Command::new(program).args(arguments).exec())
        }
        ("serve", [id, place]) => peer(id)?.serve(Path::new(place), || write_line("ready")),
        ("acquire", [id, place, count]) => {
            acquire(peer(id)?, Path::new(place), count.parse().map_err(|_| wrong())?)
        }
        ("shared", [id, place, count]) => {
            shared(peer(id)?, Path::new(place), count.parse().map_err(|_| wrong())?)
        }
        ("first", [id, place, count]) => {
            first(peer(id)?, Path::new(place), count.parse().map_err(|_| wrong())?)
        }
        ("recall", [id, place, count]) => {
            recall(peer(id)?, Path::new(place), count.parse().map_err(|_| wrong())?)
        }
        ("query" | "query-idle", [id, place, count]) => {
            query(peer(id)?, Path::new(place), count.parse().map_err(|_| wrong())?)
        }
        ("have", [id, place, how]) => have(peer(id)?, Path::new(place), how == "held"),
        ("handover", [id, place, count, turn]) => handover(
            peer(id)?,
            Path::new(place),
            count.parse().map_err(|_| wrong())?,
            turn.parse().map_err(|_| wrong())?,
        ),
        ("kill", [id, place, count]) => {
            let holder = [OsStr::new("hold"), OsStr::new(id), OsStr::new(place)];
            let start = || Participant::ours(cpu.parse().map_err(|_| wrong())?, &holder);
            kill(peer(id)?, Path::new(place), count.parse().map_err(|_| wrong())?, start)
        }
        ("hold", [id, place]) => hold(peer(id)?, Path::new(place)),
        ("command", [id, place, count]) => {
            command(peer(id)?, Path::new(place), count.parse().map_err(|_| wrong())?)
        }
        ("compete", [id, place, clients, milliseconds, how]) => crowd::compete_as(
            peer(id)?,
            Path::new(place),
            clients.parse().map_err(|_| wrong())?,
            Duration::from_millis(milliseconds.parse().map_err(|_| wrong())?),
            how == "goes",
        ),
        ("keep", [place, from, count]) => memory::keep(
            Path::new(place),
            from.parse().map_err(|_| wrong())?,
            count.parse().map_err(|_| wrong())?,
        ),
        _ => Err(wrong()),
    }
}

/// The role of a process that takes and releases a lock again and again.
fn acquire(peer: Peer, place: &Path, count: usize) -> io::Result<()> {
    let mut client = peer.connect(Row::Acquire, place, Turn::First)?;
    again_and_again(&mut *client, count)
}

/// The role of a process that takes and releases a shared lock again and again.
fn shared(peer: Peer, place: &Path, count: usize) -> io::Result<()> {
    let mut client = peer.connect(Row::Shared, place, Turn::First)?;
    again_and_again(&mut *client, count)
}

fn again_and_again(client: &mut dyn Client, count: usize) -> io::Result<()> {
    client.take_and_release(count / 10)?;
    let start = Instant::now();
    client.take_and_release(count)?;
    write_line(&nanoseconds_each(start, count).to_string());
    Ok(())
}

/// The role of a process that takes locks of names that nobody has ever had.
fn first(peer: Peer, place: &Path, count: usize) -> io::Result<()> {
    let mut client = peer.connect(Row::First, place, Turn::First)?;
    let us = std::process::id();
    let names: Vec<_> = (0..count).map(|nth| format!("documents/{us}/{nth}/body")).collect();
    client.take_and_release(count / 10)?;
    let start = Instant::now();
    for name in &names {
        client.take_and_release_other(name)?;
    }
    write_line(&nanoseconds_each(start, count).to_string());
    Ok(())
}

/// The role of a process that takes and releases a lock whenever it is told to. In between, another process
/// does so. Prints how long it took to get each lock.
fn recall(peer: Peer, place: &Path, count: usize) -> io::Result<()> {
    let mut client = peer.connect(Row::Recall, place, Turn::First)?;
    let mut samples = Vec::with_capacity(count);
    write_line("ready");
    for _ in 0..count {
        wait_for_line()?;
        let start = Instant::now();
        client.acquire()?;
        samples.push((start.elapsed().as_secs_f64() * 1e9).to_string());
        client.release()?;
        write_line("released");
    }
    write_line(&samples.join(" "));
    Ok(())
}

/// The role of a process that has many locks, or has had them, until it is killed.
fn have(peer: Peer, place: &Path, is_held: bool) -> io::Result<()> {
    let locks = peer.lock_manager(place)?;
    let mut guards = Vec::with_capacity(MANY);
    for nth in 0..MANY {
        let request = locks.lock(format!("documents/{nth}/body"));
        guards.push(request.blocking().map_err(io::Error::other)?);
    }
    if !is_held {
        guards.clear();
    }
    write_line("ready");
    wait_for_line()
}

/// The role of a process that asks again and again who has what.
fn query(peer: Peer, place: &Path, count: usize) -> io::Result<()> {
    let locks = peer.lock_manager(place)?;
    let query = || block_on(locks.query()).map(|state| state.held.len()).map_err(io::Error::other);
    for _ in 0..=count / 10 {
        query()?;
    }
    let start = Instant::now();
    for _ in 0..count {
        black_box(query()?);
    }
    write_line(&nanoseconds_each(start, count).to_string());
    Ok(())
}

/// The role of a process that takes the lock in turn with another, and says when it had it.
fn handover(peer: Peer, place: &Path, count: usize, turn: usize) -> io::Result<()> {
    let turn = if turn == 0 { Turn::First } else { Turn::Second };
    let mut client = peer.connect(Row::Handover, place, turn)?;
    let mut grants = Vec::with_capacity(count);
    write_line("ready");
    wait_for_line()?;
    let start = Instant::now();
    while grants.len() < count || start.elapsed() < TOGETHER {
        client.acquire()?;
        // This clock is the same in all processes, which the standard library's does not promise.
        grants.push(clock_gettime(ClockId::Monotonic));
        client.release()?;
    }
    // The other process may need the lock once more, and would get it only when this process is gone.
    drop(client);
    let grants: Vec<_> =
        grants.iter().map(|time| format!("{}{:09}", time.tv_sec, time.tv_nsec)).collect();
    write_line(&grants.join(" "));
    Ok(())
}

/// The role of a process that starts holders, waits for the lock, and kills the holder. Prints how long each
/// kill took to become a grant.
fn kill(
    peer: Peer,
    place: &Path,
    count: usize,
    start_holder: impl Fn() -> io::Result<Participant>,
) -> io::Result<()> {
    let mut client = peer.connect(Row::Kill, place, Turn::First)?;
    let mut samples = Vec::with_capacity(count);
    for _ in 0..count {
        let mut holder = start_holder()?;
        holder.read_until("held")?;
        let mut killed = Instant::now();
        client.acquire_after(&mut || {
            killed = Instant::now();
            holder.kill()
        })?;
        samples.push((killed.elapsed().as_secs_f64() * 1e9).to_string());
        client.release()?;
    }
    write_line(&samples.join(" "));
    Ok(())
}

/// The role of a process that holds the lock until it is killed.
fn hold(peer: Peer, place: &Path) -> io::Result<()> {
    let mut client = peer.connect(Row::Kill, place, Turn::Second)?;
    client.acquire()?;
    write_line("held");
    wait_for_line()
}

/// The role of a process that runs a locking program again and again, with a command that does nothing.
/// Prints how long each run took.
fn command(peer: Peer, place: &Path, count: usize) -> io::Result<()> {
    let mut command = peer.command(place)?;
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let mut samples = Vec::with_capacity(count);
    for round in 0..=count {
        let start = Instant::now();
        let status = command.status()?;
        if !status.success() {
            return Err(io::Error::other(format!("{:?}: {status}", command.get_program())));
        }
        // The first run reads files from the disk.
        if round > 0 {
            samples.push((start.elapsed().as_secs_f64() * 1e9).to_string());
        }
    }
    write_line(&samples.join(" "));
    Ok(())
}

fn nanoseconds_each(start: Instant, count: usize) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    let count = count as f64;
    start.elapsed().as_secs_f64() * 1e9 / count
}
