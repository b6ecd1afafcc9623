//! What a client of the machine's broker holds and waits for, in a file that only the broker can read.
//!
//! The next broker believes a claim of a lock only if the lock stands there. Otherwise a user could claim what another
//! user holds. A request has waited since the moment that stands there, and one that does not stand there since it is
//! claimed. And nobody else can take the id of an agent that stands there, which everybody is shown.
//!
//! The file begins with a secret. Each record has an agent's id, a digest under the secret of one of the agent's locks
//! or requests, and since when it waits. Zeros in place of the digest say that the agent is there. A broker that is
//! killed leaves the file as it is, since the system has what was written.

use std::{
    collections::HashMap,
    fs::File,
    hash::Hash,
    io::{self, Read},
};

use navlock_core::{ClientId, Mode, ResourceName};
use navlock_engine::{FencingToken, RequestId};
use navlock_platform::file::write_all_at;
use navlock_wire::Moment;
use siphasher::sip128::{Hasher128, SipHasher13};

use super::requests::RequestOwner;

const SECRET: usize = 16;

/// What is noted: an agent's id, and a digest.
const WHAT: usize = 32;
const RECORD: usize = WHAT + size_of::<Moment>();

type What = [u8; WHAT];
type Record = [u8; RECORD];

/// A lock or a request. A request has no token.
pub(super) type Noting<'a> = (&'a ResourceName, Mode, Option<FencingToken>);

/// What a record is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Noted {
    Agent(ClientId),
    Request(RequestId),
}

/// The notes of one client.
#[derive(Debug)]
pub(super) struct HeldNotes {
    file: File,
    secret: [u8; SECRET],
    /// The places of the records.
    places: HashMap<Noted, u32>,
    /// The places that are free, below `end`.
    free: Vec<u32>,
    end: u32,
    /// What an earlier broker has noted, as long as nobody has claimed it, with its place and its time.
    earlier: HashMap<What, (u32, Moment)>,
}

impl HeldNotes {
    /// The notes in this file, which may be empty.
    pub(super) fn of(mut file: File) -> io::Result<Self> {
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        let mut secret = ClientId::random().to_bytes();
        let mut records = &[][..];
        match bytes.split_first_chunk() {
            Some((first, rest)) => (secret, records) = (*first, rest),
            None => write_all_at(&file, &secret, 0)?,
        }
        // A record that was written in part stands for nothing.
        let records = records.chunks_exact(RECORD).map(|record| Record::try_from(record).ok());
        let (mut free, mut earlier) = (Vec::new(), HashMap::new());
        let mut end = 0;
        for record in records.flatten() {
            match (record.first_chunk(), record.last_chunk()) {
                (Some(what), Some(since)) if *what != [0; WHAT] => {
                    earlier.insert(*what, (end, Moment::from_ne_bytes(*since)));
                }
                _ => free.push(end),
            }
            end += 1;
        }
        Ok(Self { file, secret, places: HashMap::new(), free, end, earlier })
    }

    /// The agents that an earlier broker has noted.
    pub(super) fn agents(&self) -> impl Iterator<Item = ClientId> {
        self.earlier.keys().filter_map(|what| Some(ClientId::from_bytes(*what.first_chunk()?)))
    }

    /// Notes an agent.
    pub(super) fn note_agent(&mut self, agent: ClientId) {
        self.note(Noted::Agent(agent), what(agent, [0; 16]), 0);
    }

    /// Notes a request that waits, or a lock before its client is told of it.
    pub(super) fn note_request(
        &mut self,
        id: RequestId,
        of: &RequestOwner,
        noting: Noting<'_>,
        since: Moment,
    ) {
        self.note(Noted::Request(id), self.what_of(id, of, noting), since);
    }

    /// Since when this is so by the word of an earlier broker, if it is and nobody has claimed it from this one.
    pub(super) fn believes(
        &mut self,
        id: RequestId,
        of: &RequestOwner,
        noting: Noting<'_>,
    ) -> Option<Moment> {
        let (place, since) = self.earlier.remove(&self.what_of(id, of, noting))?;
        self.places.insert(Noted::Request(id), place);
        Some(since)
    }

    /// Notes that an agent has ended.
    pub(super) fn forget_agent(&mut self, agent: ClientId) {
        self.forget(Noted::Agent(agent));
    }

    /// Notes that a request or lock is over.
    pub(super) fn forget_request(&mut self, id: RequestId) {
        self.forget(Noted::Request(id));
    }

    fn note(&mut self, noted: Noted, what: What, since: Moment) {
        let place = self.places.get(&noted).copied().or_else(|| self.free.pop());
        let place = place.unwrap_or_else(|| {
            self.end += 1;
            self.end - 1
        });
        let mut record = [0; RECORD];
        record[..WHAT].copy_from_slice(&what);
        record[WHAT..].copy_from_slice(&since.to_ne_bytes());
        // What cannot be written is not believed later. Whoever claims it is told that it is lost.
        let _ = self.write(place, &record);
        self.places.insert(noted, place);
    }

    fn forget(&mut self, noted: Noted) {
        if let Some(place) = self.places.remove(&noted) {
            if self.write(place, &[0; RECORD]).is_ok() {
                self.free.push(place);
            }
        }
    }

    fn write(&self, place: u32, record: &Record) -> io::Result<()> {
        write_all_at(&self.file, record, SECRET as u64 + u64::from(place) * RECORD as u64)
    }

    fn what_of(&self, id: RequestId, of: &RequestOwner, (name, mode, token): Noting<'_>) -> What {
        let mut hasher = SipHasher13::new_with_key(&self.secret);
        (id.serial(), &*of.bucket, name.as_bytes(), mode == Mode::Shared, token).hash(&mut hasher);
        what(of.client_id, hasher.finish128().as_bytes())
    }
}

fn what(agent: ClientId, digest: [u8; 16]) -> What {
    let mut what = [0; WHAT];
    what[..16].copy_from_slice(&agent.to_bytes());
    what[16..].copy_from_slice(&digest);
    what
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(bucket: &str) -> RequestOwner {
        RequestOwner { agent: 0, client_id: ClientId::from_bytes([7; 16]), bucket: bucket.into() }
    }

    #[test]
    fn only_what_was_granted_and_not_released_is_believed_and_once() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("held");
        let open = || {
            let mut options = File::options();
            options.read(true).write(true).create(true).truncate(false).open(&path).unwrap()
        };
        let [name, other]: [ResourceName; 2] = ["db", "other"].map(|name| name.try_into().unwrap());
        let [first, second, third] = [1, 2, 3].map(|serial| RequestId::from_parts(0, serial));
        let (of, token) = (owner("app"), Some(FencingToken::new(5)));
        let mut notes = HeldNotes::of(open()).unwrap();
        notes.note_agent(of.client_id);
        notes.note_request(first, &of, (&name, Mode::Exclusive, None), 7);
        notes.note_request(third, &of, (&name, Mode::Exclusive, None), 8);
        notes.note_request(first, &of, (&name, Mode::Exclusive, token), 9);
        notes.note_request(second, &of, (&other, Mode::Shared, token), 10);
        notes.forget_request(second);
        drop(notes);

        let mut next = HeldNotes::of(open()).unwrap();
        assert!(next.agents().all(|agent| agent == of.client_id) && next.agents().count() == 3);
        for (id, of, lock) in [
            (first, &of, (&other, Mode::Exclusive, token)),
            (first, &of, (&name, Mode::Shared, token)),
            (first, &of, (&name, Mode::Exclusive, Some(FencingToken::new(6)))),
            (first, &of, (&name, Mode::Exclusive, None)),
            (first, &owner("else"), (&name, Mode::Exclusive, token)),
            (second, &of, (&other, Mode::Shared, token)),
            (third, &of, (&name, Mode::Exclusive, token)),
        ] {
            assert_eq!(next.believes(id, of, lock), None, "{id:?} {lock:?}");
        }
        assert_eq!(next.believes(first, &of, (&name, Mode::Exclusive, token)), Some(9));
        assert_eq!(next.believes(first, &of, (&name, Mode::Exclusive, token)), None);
        assert_eq!(next.believes(third, &of, (&name, Mode::Exclusive, None)), Some(8));
        next.forget_request(first);
        drop(next);
        let mut last = HeldNotes::of(open()).unwrap();
        assert_eq!(last.believes(first, &of, (&name, Mode::Exclusive, token)), None);
    }
}
