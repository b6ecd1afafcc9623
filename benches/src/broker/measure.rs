//! The rows: what those who take part do, and how the one who started them has them do it.

use std::{
    ffi::OsStr,
    hint::black_box,
    io,
    path::Path,
    process::Stdio,
    time::{Duration, Instant},
};

use navlock::blocking::block_on;
use rustix::time::{ClockId, clock_gettime};

use super::{
    Row,
    layout::Seat,
    participant::{Participant, say, wait_for_word},
    peer::{Client, Peer, Turn},
    servers::Servers,
};

/// The name of the lock that everybody takes; as long as names usually are.
pub(super) const NAME: &str = "documents/42/body";

/// How long processes take a lock in turn at least: as long as only one of them is there, it may own
/// the name, and has had its share in no time.
const TOGETHER: Duration = Duration::from_millis(50);

/// How often processes are given the chance to meet.
const ATTEMPTS: usize = 5;

/// One round of one peer: nanoseconds.
pub(super) fn round(
    row: Row,
    peer: Peer,
    servers: &Servers,
    count: usize,
) -> Result<Vec<f64>, String> {
    let failed = |error: io::Error| format!("{}: {}: {error}", row.id(), peer.name(row));
    match row {
        Row::Acquire | Row::Shared | Row::First | Row::Kill | Row::Command => {
            alone(row, peer, servers, count).map_err(failed)
        }
        Row::Query | Row::QueryIdle => beside_many(row, peer, servers, count).map_err(failed),
        Row::Recall => alternately(row, peer, servers, count).map_err(failed),
        Row::Handover => {
            // Where the machine had other things to do, one may be done before the other began.
            let attempts = (0..ATTEMPTS).map(|_| in_turn(row, peer, servers, count).transpose());
            let round = attempts.flatten().next();
            let never = || Err(io::Error::other("it never changed hands"));
            round.unwrap_or_else(never).map_err(failed)
        }
    }
}

fn alone(row: Row, peer: Peer, servers: &Servers, count: usize) -> io::Result<Vec<f64>> {
    let (place, count) = (servers.place(peer), count.to_string());
    let words = [row.id().as_ref(), peer.id().as_ref(), place.as_os_str(), count.as_ref()];
    Participant::ours(servers.layout().cpu(Seat::First)?, &words)?.hear_numbers()
}

/// One round while another process has, or has had, many locks.
fn beside_many(row: Row, peer: Peer, servers: &Servers, count: usize) -> io::Result<Vec<f64>> {
    let how = if row == Row::Query { "held" } else { "released" };
    let place = servers.place(peer).as_os_str();
    let words: [&OsStr; 4] = ["have".as_ref(), peer.id().as_ref(), place, how.as_ref()];
    let mut other = Participant::ours(servers.layout().cpu(Seat::Second)?, &words)?;
    other.hear_of("ready")?;
    alone(row, peer, servers, count)
}

/// One round of two who take turns, of which each is told when it is its turn.
fn alternately(row: Row, peer: Peer, servers: &Servers, count: usize) -> io::Result<Vec<f64>> {
    let (place, count_) = (servers.place(peer), count.to_string());
    let words = [row.id().as_ref(), peer.id().as_ref(), place.as_os_str(), count_.as_ref()];
    let start = |seat| {
        let mut participant = Participant::ours(servers.layout().cpu(seat)?, &words)?;
        participant.hear_of("ready")?;
        Ok::<_, io::Error>(participant)
    };
    let mut parties = [start(Seat::First)?, start(Seat::Second)?];
    for _ in 0..count {
        for participant in &mut parties {
            participant.say("go")?;
            participant.hear_of("released")?;
        }
    }
    let mut samples = Vec::with_capacity(2 * count);
    for mut participant in parties {
        samples.extend(participant.hear_numbers()?);
    }
    Ok(samples)
}

/// One round of a handover, unless it never changed hands.
fn in_turn(row: Row, peer: Peer, servers: &Servers, count: usize) -> io::Result<Option<Vec<f64>>> {
    let (place, count) = (servers.place(peer), count.to_string());
    let start = |seat, turn: &str| {
        let words: [&OsStr; 5] = [
            row.id().as_ref(),
            peer.id().as_ref(),
            place.as_os_str(),
            count.as_ref(),
            turn.as_ref(),
        ];
        let mut participant = Participant::ours(servers.layout().cpu(seat)?, &words)?;
        participant.hear_of("ready")?;
        Ok::<_, io::Error>(participant)
    };
    let mut parties = vec![start(Seat::First, "0")?, start(Seat::Second, "1")?];
    if peer.has_queue() {
        // Of three, one waits whenever the lock is released, so that it is handed over; of two, who
        // releases it may own it, and take it many times before the other gets to ask.
        parties.push(start(Seat::First, "2")?);
    }
    for participant in &mut parties {
        participant.say("go")?;
    }
    let grants: io::Result<Vec<_>> = parties.iter_mut().map(Participant::hear_numbers).collect();
    Ok(handover_time(&grants?).map(|each| vec![each]))
}

/// The time from one change of hands to the next, from the times at which each was granted the lock, in
/// order.
///
/// Whoever releases the lock and asks again comes after the others, who wait: so they take turns,
/// mostly. On two CPUs one may have it twice before another has asked again, which is no
/// handover, but takes its time.
fn handover_time(all: &[Vec<f64>]) -> Option<f64> {
    // All are there, and warm.
    let begin = all.iter().map(|one| one[one.len() / 10]).max_by(f64::total_cmp)?;
    let until = all.iter().filter_map(|one| one.last().copied()).min_by(f64::total_cmp)?;
    let tagged = |(who, one): (usize, &Vec<f64>)| {
        one.iter().map(move |&time| (time, who)).collect::<Vec<_>>()
    };
    let mut grants: Vec<_> = all.iter().enumerate().flat_map(tagged).collect();
    grants.retain(|&(time, _)| (begin..=until).contains(&time));
    grants.sort_by(|(one, _), (other, _)| one.total_cmp(other));
    let changes = grants.windows(2).filter(|two| two[0].1 != two[1].1).count();
    let (first, last) = (grants.first()?.0, grants.last()?.0);
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    (changes > 0).then(|| (last - first) / changes as f64)
}

/// The role of a process that takes and releases a lock again and again.
pub(super) fn acquire(peer: Peer, place: &Path, count: usize) -> io::Result<()> {
    let mut client = peer.connect(Row::Acquire, place, Turn::First)?;
    again_and_again(&mut *client, count)
}

/// The same with shared locks.
pub(super) fn shared(peer: Peer, place: &Path, count: usize) -> io::Result<()> {
    let mut client = peer.connect(Row::Shared, place, Turn::First)?;
    again_and_again(&mut *client, count)
}

fn again_and_again(client: &mut dyn Client, count: usize) -> io::Result<()> {
    client.take_and_release(count / 10)?;
    let start = Instant::now();
    client.take_and_release(count)?;
    say(&nanoseconds_each(start, count).to_string());
    Ok(())
}

/// The role of a process that takes locks of names that nobody has ever had.
pub(super) fn first(peer: Peer, place: &Path, count: usize) -> io::Result<()> {
    let mut client = peer.connect(Row::First, place, Turn::First)?;
    let us = std::process::id();
    let names: Vec<_> = (0..count).map(|nth| format!("documents/{us}/{nth}/body")).collect();
    client.take_and_release(count / 10)?;
    let start = Instant::now();
    for name in &names {
        client.take_and_release_other(name)?;
    }
    say(&nanoseconds_each(start, count).to_string());
    Ok(())
}

/// The role of a process that takes and releases a lock whenever it is told to, as another does in
/// between: how long each took to be had.
pub(super) fn recall(peer: Peer, place: &Path, count: usize) -> io::Result<()> {
    let mut client = peer.connect(Row::Recall, place, Turn::First)?;
    let mut samples = Vec::with_capacity(count);
    say("ready");
    for _ in 0..count {
        wait_for_word()?;
        let start = Instant::now();
        client.acquire()?;
        samples.push((start.elapsed().as_secs_f64() * 1e9).to_string());
        client.release()?;
        say("released");
    }
    say(&samples.join(" "));
    Ok(())
}

/// How many locks there are when it is asked who has what.
pub(super) const MANY: usize = 1000;

/// The role of a process that has many locks, or has had them, until it is killed.
pub(super) fn have(peer: Peer, place: &Path, is_held: bool) -> io::Result<()> {
    let locks = peer.lock_manager(place)?;
    let mut guards = Vec::with_capacity(MANY);
    for nth in 0..MANY {
        let request = locks.lock(format!("documents/{nth}/body"));
        guards.push(request.blocking().map_err(io::Error::other)?);
    }
    if !is_held {
        guards.clear();
    }
    say("ready");
    wait_for_word()
}

/// The role of a process that asks who has what, which it is told after all that was released.
pub(super) fn query(peer: Peer, place: &Path, count: usize) -> io::Result<()> {
    let locks = peer.lock_manager(place)?;
    let query = || block_on(locks.query()).map(|state| state.held.len()).map_err(io::Error::other);
    for _ in 0..=count / 10 {
        query()?;
    }
    let start = Instant::now();
    for _ in 0..count {
        black_box(query()?);
    }
    say(&nanoseconds_each(start, count).to_string());
    Ok(())
}

/// The role of a process that takes the lock in turn with another, and says when it had it.
pub(super) fn handover(peer: Peer, place: &Path, count: usize, turn: usize) -> io::Result<()> {
    let turn = if turn == 0 { Turn::First } else { Turn::Second };
    let mut client = peer.connect(Row::Handover, place, turn)?;
    let mut grants = Vec::with_capacity(count);
    say("ready");
    wait_for_word()?;
    let start = Instant::now();
    while grants.len() < count || start.elapsed() < TOGETHER {
        client.acquire()?;
        // The same clock in all processes, which that of the standard library does not promise.
        grants.push(clock_gettime(ClockId::Monotonic));
        client.release()?;
    }
    // The other may need it once more: with us it would be free only when we are gone.
    drop(client);
    let grants: Vec<_> =
        grants.iter().map(|time| format!("{}{:09}", time.tv_sec, time.tv_nsec)).collect();
    say(&grants.join(" "));
    Ok(())
}

/// The role of a process that starts holders, waits for the lock, kills them and gets it: how long
/// each kill took to become a grant.
pub(super) fn kill(
    peer: Peer,
    place: &Path,
    count: usize,
    start_holder: impl Fn() -> io::Result<Participant>,
) -> io::Result<()> {
    let mut client = peer.connect(Row::Kill, place, Turn::First)?;
    let mut samples = Vec::with_capacity(count);
    for _ in 0..count {
        let mut holder = start_holder()?;
        holder.hear_of("held")?;
        let mut killed = Instant::now();
        client.acquire_after(&mut || {
            killed = Instant::now();
            holder.kill()
        })?;
        samples.push((killed.elapsed().as_secs_f64() * 1e9).to_string());
        client.release()?;
    }
    say(&samples.join(" "));
    Ok(())
}

/// The role of a process that holds the lock until it is killed.
pub(super) fn hold(peer: Peer, place: &Path) -> io::Result<()> {
    let mut client = peer.connect(Row::Kill, place, Turn::Second)?;
    client.acquire()?;
    say("held");
    wait_for_word()
}

/// The role of a process that runs a program again and again, which runs a command that does nothing:
/// how long each took.
pub(super) fn command(peer: Peer, place: &Path, count: usize) -> io::Result<()> {
    let mut command = peer.command(place)?;
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let mut samples = Vec::with_capacity(count);
    for round in 0..=count {
        let start = Instant::now();
        let status = command.status()?;
        if !status.success() {
            return Err(io::Error::other(format!("{:?}: {status}", command.get_program())));
        }
        // The first has files to be read from the disk.
        if round > 0 {
            samples.push((start.elapsed().as_secs_f64() * 1e9).to_string());
        }
    }
    say(&samples.join(" "));
    Ok(())
}

fn nanoseconds_each(start: Instant, count: usize) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    let count = count as f64;
    start.elapsed().as_secs_f64() * 1e9 / count
}

#[cfg(test)]
mod tests {
    use super::handover_time;

    fn each(one: &[f64], other: &[f64]) -> Option<String> {
        handover_time(&[one.to_vec(), other.to_vec()]).map(|time| time.to_string())
    }

    #[test]
    fn only_changes_of_hands_are_handovers() {
        assert_eq!(each(&[1.0, 3.0, 5.0], &[2.0, 4.0, 6.0]).as_deref(), Some("1"));
        // The first has it twice.
        assert_eq!(
            each(&[1.0, 3.0, 4.0, 6.0], &[2.0, 5.0, 7.0]).as_deref(),
            Some("1.3333333333333333")
        );
    }

    #[test]
    fn what_one_does_while_the_other_is_not_there_does_not_count() {
        assert_eq!(each(&[1.0, 2.0, 3.0], &[10.0, 11.0]), None);
    }
}
