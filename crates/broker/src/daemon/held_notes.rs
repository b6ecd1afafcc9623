//! What a client of the machine's broker holds and waits for, in a file that only the broker can read.
//!
//! The next broker believes a claim of a lock only if the lock stands there. Otherwise a user could claim what another
//! user holds. A request has waited since the moment that stands there, and one that does not stand there since it is
//! claimed. And nobody else can take the id of an agent that stands there, which everybody is shown.
//!
//! The file begins with a secret. Each record has an agent's id, a digest under the secret of one of the agent's
//! requests, the lock's token, if the request has become one, and since when it waits or waited. Zeros in place of the
//! digest say that the agent is there. A broker that is killed leaves the file as it is, since the system has what was
//! written.

use std::{
    fs::File,
    hash::Hash,
    io::{self, Read},
};

use foldhash::quality::RandomState;
use indexmap::IndexMap;
use navlock_core::{ClientId, Mode, ResourceName};
use navlock_engine::{FencingToken, RequestId};
use navlock_platform::file::write_all_at;
use navlock_wire::Moment;
use siphasher::sip128::{Hasher128, SipHasher13};

use super::requests::RequestOwner;

const SECRET: usize = 16;

/// An agent's id, and a digest.
const WHAT: usize = 32;
const RECORD: usize = WHAT + 16;

type What = [u8; WHAT];
type Record = [u8; RECORD];

/// What was asked for.
pub(super) type Asked<'a> = (&'a ResourceName, Mode);

/// What a record is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Noted {
    Agent(ClientId),
    Request(RequestId),
    /// What an earlier broker has noted, as long as nobody has claimed it.
    Earlier(What),
}

/// The notes of one client.
#[derive(Debug)]
pub(super) struct HeldNotes {
    pub(super) file: File,
    secret: [u8; SECRET],
    /// The records, in the order in which they stand in the file.
    records: IndexMap<Noted, Record, RandomState>,
    /// How many records the file has room for. Behind the last one there are zeros.
    room: usize,
}

/// How many records there may be room for that are not there. To make a file shorter takes longer than to write zeros.
const SPARE: usize = 1 << 10;

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
        let records = records.chunks_exact(RECORD).filter_map(|record| record.try_into().ok());
        let records = records.filter_map(|record: Record| Some((*record.first_chunk()?, record)));
        let records = records.filter(|(what, _)| *what != [0; WHAT]);
        let records = records.map(|(what, record)| (Noted::Earlier(what), record)).collect();
        let mut notes = Self { file, secret, records, room: 0 };
        notes.cut()?;
        for place in 0..notes.records.len() {
            notes.write(place)?;
        }
        Ok(notes)
    }

    /// The agents of which something is noted.
    pub(super) fn agents(&self) -> impl Iterator<Item = ClientId> {
        self.records
            .values()
            .filter_map(|record| Some(ClientId::from_bytes(*record.first_chunk()?)))
    }

    /// Notes an agent.
    pub(super) fn note_agent(&mut self, agent: ClientId) {
        self.note(Noted::Agent(agent), record(what(agent, [0; 16]), None, 0));
    }

    /// Notes a request that waits, or a lock before its client is told of it.
    pub(super) fn note_request(
        &mut self,
        id: RequestId,
        of: &RequestOwner,
        asked: Asked<'_>,
        token: Option<FencingToken>,
        since: Moment,
    ) {
        let noted = Noted::Request(id);
        // A lock whose grant does not reach its client waits again, in its old place.
        let since = self.records.get(&noted).map_or(since, |record| since_of(record).min(since));
        self.note(noted, record(self.what_of(id, of, asked), token, since));
    }

    /// Since when an earlier broker says that this was asked for, if it says so and nobody has claimed it from this one.
    /// With a token, only if it was granted with this token.
    pub(super) fn believes(
        &mut self,
        id: RequestId,
        of: &RequestOwner,
        asked: Asked<'_>,
        token: Option<FencingToken>,
    ) -> Option<Moment> {
        let earlier = Noted::Earlier(self.what_of(id, of, asked));
        let (place, _, known) = self.records.get_full(&earlier)?;
        let (since, is_it) = (since_of(known), token.is_none() || token_of(known) == token);
        // It stays at its place.
        is_it.then(|| self.records.replace_index(place, Noted::Request(id)).ok())?;
        Some(since)
    }

    /// Forgets what nobody has claimed.
    pub(super) fn forget_earlier(&mut self) {
        let is_earlier = |noted: &&Noted| matches!(noted, Noted::Earlier(_));
        for noted in self.records.keys().filter(is_earlier).copied().collect::<Vec<_>>() {
            self.forget(noted);
        }
    }

    /// Notes that an agent has ended, with all its requests.
    pub(super) fn forget_agent(&mut self, agent: ClientId) {
        let is_its = |(_, record): &(&Noted, &Record)| record.starts_with(&agent.to_bytes());
        let its = self.records.iter().filter(is_its).map(|(noted, _)| *noted);
        for noted in its.collect::<Vec<_>>() {
            self.forget(noted);
        }
    }

    /// Notes that a request or lock is over.
    pub(super) fn forget_request(&mut self, id: RequestId) {
        self.forget(Noted::Request(id));
    }

    fn note(&mut self, noted: Noted, record: Record) {
        let (place, _) = self.records.insert_full(noted, record);
        self.room = self.room.max(place + 1);
        // What cannot be written is not believed later. Whoever claims it is told that it is lost.
        let _ = self.write(place);
    }

    fn forget(&mut self, noted: Noted) {
        let Some((place, ..)) = self.records.swap_remove_full(&noted) else { return };
        // The last record has moved to the place.
        if place < self.records.len() {
            let _ = self.write(place);
        }
        let _ = if self.room > self.records.len() + SPARE {
            self.cut()
        } else {
            write_all_at(&self.file, &[0; RECORD], length(self.records.len()))
        };
    }

    fn write(&self, place: usize) -> io::Result<()> {
        let Some((_, record)) = self.records.get_index(place) else { return Ok(()) };
        write_all_at(&self.file, record, length(place))
    }

    /// Ends the file after the last record.
    fn cut(&mut self) -> io::Result<()> {
        self.room = self.records.len();
        self.file.set_len(length(self.room))
    }

    fn what_of(&self, id: RequestId, of: &RequestOwner, (name, mode): Asked<'_>) -> What {
        let mut hasher = SipHasher13::new_with_key(&self.secret);
        (id.serial(), &*of.bucket, name.as_bytes(), mode == Mode::Shared).hash(&mut hasher);
        what(of.client_id, hasher.finish128().as_bytes())
    }
}

/// The length of a file with so many records.
fn length(records: usize) -> u64 {
    (SECRET + records * RECORD) as u64
}

fn what(agent: ClientId, digest: [u8; 16]) -> What {
    let mut what = [0; WHAT];
    what[..16].copy_from_slice(&agent.to_bytes());
    what[16..].copy_from_slice(&digest);
    what
}

fn record(what: What, token: Option<FencingToken>, since: Moment) -> Record {
    let mut record = [0; RECORD];
    record[..WHAT].copy_from_slice(&what);
    record[WHAT..][..8].copy_from_slice(&token.map_or(0, FencingToken::get).to_ne_bytes());
    record[WHAT + 8..].copy_from_slice(&since.to_ne_bytes());
    record
}

fn token_of(record: &Record) -> Option<FencingToken> {
    let token = record[WHAT..].first_chunk().map_or(0, |token| u64::from_ne_bytes(*token));
    (token != 0).then(|| FencingToken::new(token))
}

fn since_of(record: &Record) -> Moment {
    record.last_chunk().map_or(0, |since| Moment::from_ne_bytes(*since))
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
        let (db, shared) = ((&name, Mode::Exclusive), (&other, Mode::Shared));
        let mut notes = HeldNotes::of(open()).unwrap();
        notes.note_agent(of.client_id);
        notes.note_request(second, &of, shared, token, 10);
        notes.note_request(first, &of, db, None, 7);
        notes.note_request(third, &of, db, None, 8);
        notes.note_request(first, &of, db, token, 9);
        notes.forget_request(second);
        drop(notes);

        let mut next = HeldNotes::of(open()).unwrap();
        assert!(next.agents().all(|agent| agent == of.client_id) && next.agents().count() == 3);
        for (id, of, asked, token) in [
            (first, &of, (&other, Mode::Exclusive), token),
            (first, &of, (&name, Mode::Shared), token),
            (first, &of, db, Some(FencingToken::new(6))),
            (first, &owner("else"), db, token),
            (second, &of, shared, token),
            (third, &of, db, token),
        ] {
            assert_eq!(next.believes(id, of, asked, token), None, "{id:?} {asked:?}");
        }
        // A grant that was not heard of leaves the request where it was.
        assert_eq!(next.believes(first, &of, db, token), Some(7));
        assert_eq!(next.believes(first, &of, db, token), None);
        assert_eq!(next.believes(third, &of, db, None), Some(8));
        next.forget_request(first);
        next.forget_earlier();
        drop(next);
        let mut last = HeldNotes::of(open()).unwrap();
        assert_eq!(last.believes(first, &of, db, token), None);
        assert_eq!(last.believes(third, &of, db, None), Some(8));
        last.forget_agent(of.client_id);
        assert_eq!(HeldNotes::of(open()).unwrap().agents().count(), 0);
        assert_eq!(path.metadata().unwrap().len(), length(0));
        for serial in 0..2 * SPARE as u64 {
            last.note_request(RequestId::from_parts(0, serial), &of, db, token, 1);
        }
        for serial in 0..2 * SPARE as u64 {
            last.forget_request(RequestId::from_parts(0, serial));
        }
        assert!(path.metadata().unwrap().len() <= length(SPARE));
        assert_eq!(HeldNotes::of(open()).unwrap().agents().count(), 0);
    }
}
