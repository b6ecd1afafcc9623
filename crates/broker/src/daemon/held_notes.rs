//! What a client of the machine's broker holds, in a file that only the broker can read.
//!
//! The next broker believes a claim only if the lock stands there. Otherwise a user could claim what another user
//! holds. It also lets nobody else take the id of an agent that stands there, which everybody is shown.
//!
//! The file begins with a secret. Each record has an agent's id, and a digest under the secret of one of the agent's
//! locks; or zeros, which say that the agent is there. A broker that is killed leaves the file as it is, since the
//! system has what was written.

use std::{
    collections::HashMap,
    fs::File,
    hash::Hash,
    io::{self, Read},
};

use navlock_core::{ClientId, Mode, ResourceName};
use navlock_engine::{FencingToken, RequestId};
use navlock_platform::file::write_all_at;
use siphasher::sip128::{Hasher128, SipHasher13};

use super::requests::RequestOwner;

const SECRET: usize = 16;
const RECORD: usize = 32;

type Record = [u8; RECORD];

/// What a record is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Noted {
    Agent(ClientId),
    Lock(RequestId),
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
    /// What an earlier broker has noted, as long as nobody has claimed it.
    earlier: HashMap<Record, u32>,
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
            if record == [0; RECORD] {
                free.push(end);
            } else {
                earlier.insert(record, end);
            }
            end += 1;
        }
        Ok(Self { file, secret, places: HashMap::new(), free, end, earlier })
    }

    /// The agents that an earlier broker has noted.
    pub(super) fn agents(&self) -> impl Iterator<Item = ClientId> {
        self.earlier.keys().filter_map(|record| {
            let id = record.first_chunk::<16>()?;
            Some(ClientId::from_bytes(*id))
        })
    }

    /// Notes an agent.
    pub(super) fn note_agent(&mut self, agent: ClientId) {
        self.note(Noted::Agent(agent), record(agent, [0; 16]));
    }

    /// Notes a lock, before its client is told of it.
    pub(super) fn note_lock(
        &mut self,
        id: RequestId,
        of: &RequestOwner,
        lock: (&ResourceName, Mode, FencingToken),
    ) {
        self.note(Noted::Lock(id), self.record_of(id, of, lock));
    }

    /// Whether an earlier broker has granted this lock, and nobody has claimed it from this one.
    pub(super) fn believes(
        &mut self,
        id: RequestId,
        of: &RequestOwner,
        lock: (&ResourceName, Mode, FencingToken),
    ) -> bool {
        let place = self.earlier.remove(&self.record_of(id, of, lock));
        if let Some(place) = place {
            self.places.insert(Noted::Lock(id), place);
        }
        place.is_some()
    }

    /// Notes that an agent has ended.
    pub(super) fn forget_agent(&mut self, agent: ClientId) {
        self.forget(Noted::Agent(agent));
    }

    /// Notes that a lock is not held any more.
    pub(super) fn forget_lock(&mut self, id: RequestId) {
        self.forget(Noted::Lock(id));
    }

    fn note(&mut self, noted: Noted, record: Record) {
        if self.places.contains_key(&noted) {
            return;
        }
        let place = self.free.pop().unwrap_or_else(|| {
            self.end += 1;
            self.end - 1
        });
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

    fn record_of(
        &self,
        id: RequestId,
        of: &RequestOwner,
        (name, mode, token): (&ResourceName, Mode, FencingToken),
    ) -> Record {
        let mut hasher = SipHasher13::new_with_key(&self.secret);
        (id.serial(), &*of.bucket, name.as_bytes(), mode == Mode::Shared, token).hash(&mut hasher);
        record(of.client_id, hasher.finish128().as_bytes())
    }
}

fn record(agent: ClientId, digest: [u8; 16]) -> Record {
    let mut record = [0; RECORD];
    record[..16].copy_from_slice(&agent.to_bytes());
    record[16..].copy_from_slice(&digest);
    record
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
        let (of, token) = (owner("app"), FencingToken::new(5));
        let mut notes = HeldNotes::of(open()).unwrap();
        notes.note_agent(of.client_id);
        notes.note_lock(first, &of, (&name, Mode::Exclusive, token));
        notes.note_lock(second, &of, (&other, Mode::Shared, token));
        notes.forget_lock(second);
        drop(notes);

        let mut next = HeldNotes::of(open()).unwrap();
        assert!(next.agents().all(|agent| agent == of.client_id) && next.agents().count() == 2);
        for (id, of, lock) in [
            (first, &of, (&other, Mode::Exclusive, token)),
            (first, &of, (&name, Mode::Shared, token)),
            (first, &of, (&name, Mode::Exclusive, FencingToken::new(6))),
            (first, &owner("else"), (&name, Mode::Exclusive, token)),
            (second, &of, (&other, Mode::Shared, token)),
            (third, &of, (&name, Mode::Exclusive, token)),
        ] {
            assert!(!next.believes(id, of, lock), "{id:?} {lock:?}");
        }
        assert!(next.believes(first, &of, (&name, Mode::Exclusive, token)));
        assert!(!next.believes(first, &of, (&name, Mode::Exclusive, token)));
        next.forget_lock(first);
        drop(next);
        let mut last = HeldNotes::of(open()).unwrap();
        assert!(!last.believes(first, &of, (&name, Mode::Exclusive, token)));
    }
}
