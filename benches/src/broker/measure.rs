//! Measures the rows, in the process that starts the participants.

use std::{ffi::OsStr, io};

use super::{layout::Seat, participant::Participant, peer::Peer, row::Row, servers::Servers};

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
            // If the machine had other things to do, one process may be done before the other began.
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
    Participant::ours(servers.layout().cpu(Seat::First)?, &words)?.read_numbers()
}

/// One round while another process has, or has had, many locks.
fn beside_many(row: Row, peer: Peer, servers: &Servers, count: usize) -> io::Result<Vec<f64>> {
    let how = if row == Row::Query { "held" } else { "released" };
    let place = servers.place(peer).as_os_str();
    let words: [&OsStr; 4] = ["have".as_ref(), peer.id().as_ref(), place, how.as_ref()];
    let mut other = Participant::ours(servers.layout().cpu(Seat::Second)?, &words)?;
    other.read_until("ready")?;
    alone(row, peer, servers, count)
}

/// One round of two processes that take turns; each is told when it is its turn.
fn alternately(row: Row, peer: Peer, servers: &Servers, count: usize) -> io::Result<Vec<f64>> {
    let (place, count_) = (servers.place(peer), count.to_string());
    let words = [row.id().as_ref(), peer.id().as_ref(), place.as_os_str(), count_.as_ref()];
    let start = |seat| {
        let mut participant = Participant::ours(servers.layout().cpu(seat)?, &words)?;
        participant.read_until("ready")?;
        Ok::<_, io::Error>(participant)
    };
    let mut participants = [start(Seat::First)?, start(Seat::Second)?];
    for _ in 0..count {
        for participant in &mut participants {
            participant.write_line("go")?;
            participant.read_until("released")?;
        }
    }
    let mut samples = Vec::with_capacity(2 * count);
    for mut participant in participants {
        samples.extend(participant.read_numbers()?);
    }
    Ok(samples)
}

/// One round of a handover, or none if the lock never changed hands.
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
        participant.read_until("ready")?;
        Ok::<_, io::Error>(participant)
    };
    let mut participants = vec![start(Seat::First, "0")?, start(Seat::Second, "1")?];
    if peer.has_queue() {
        // With three processes, one waits whenever the lock is released, so that the lock is handed over.
        // With two, the process that releases it may own the name, and take it many times before the other
        // gets to ask.
        participants.push(start(Seat::First, "2")?);
    }
    for participant in &mut participants {
        participant.write_line("go")?;
    }
    let grants: io::Result<Vec<_>> =
        participants.iter_mut().map(Participant::read_numbers).collect();
    Ok(handover_time(&grants?).map(|each| vec![each]))
}

/// The time from one change of hands to the next, from the times at which each was granted the lock, in
/// order.
///
/// A process that releases the lock and asks again comes after the waiting ones, so they mostly take turns.
/// On two CPUs one process may have the lock twice before another has asked again: that is no handover, but
/// it takes time.
fn handover_time(all: &[Vec<f64>]) -> Option<f64> {
    // From here on all processes take part, and are warm.
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

#[cfg(test)]
mod tests {
    use super::handover_time;

    fn each(one: &[f64], other: &[f64]) -> Option<String> {
        handover_time(&[one.to_vec(), other.to_vec()]).map(|time| time.to_string())
    }

    #[test]
    fn only_changes_of_hands_are_handovers() {
        assert_eq!(each(&[1.0, 3.0, 5.0], &[2.0, 4.0, 6.0]).as_deref(), Some("1"));
        // The first process has the lock twice.
        assert_eq!(
            each(&[1.0, 3.0, 4.0, 6.0], &[2.0, 5.0, 7.0]).as_deref(),
            Some("1.3333333333333333")
        );
    }

    #[test]
    fn time_while_the_other_client_is_absent_does_not_count() {
        assert_eq!(each(&[1.0, 2.0, 3.0], &[10.0, 11.0]), None);
    }
}
