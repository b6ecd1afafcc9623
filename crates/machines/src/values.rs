//! The values of the keys: who holds or waits, and since when. Decisions depend on the keys alone,
//! not on the values, except for a place and a mark.

pub(crate) use crate::notes::{MOST_INSIDE, MOST_META, Outer, RequestNotes};
use navlock_core::{AgentInfo, ClientId, ResourceName};
use serde::{Deserialize, Serialize};

/// The first byte of each value. What follows is encoded by [`postcard`].
const VERSION: u8 = 5;

/// The value of the key of a request, a lock or an owner. What stands behind it is skipped; behind that of an owner,
/// it may be an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Value {
    // The first fields are those of `Front`.
    pub(crate) client_id: ClientId,
    /// When the request was made, or the lock granted, in milliseconds since 1970 by the clock of
    /// the machine that wrote the value.
    pub(crate) since: u64,
    /// The number of the request or lock among those of its agent, by which all machines know it; 0 for an owner
    /// key.
    pub(crate) serial: u64,
    /// The place among the keys that the same revision has created. The first key has the smallest
    /// number. For an owner key: how long its lease lasts, and whether the name is owned for a run.
    pub(crate) place: u64,
    /// What the revision of the key does not tell; 0 if there is nothing. For a request that an owner
    /// of the name has queued: the revision that counts as its place in the queue, before all later
    /// ones. For a lock that an owner has granted: its token. For an owner key: that somebody has asked
    /// for the name.
    pub(crate) mark: u64,
    /// What the agent had said of itself when it made the request.
    pub(crate) info: AgentInfo,
    /// What was said of the request while it waited. This is written when it is known, which is mostly
    /// a moment after the request.
    pub(crate) said: RequestNotes,
    /// The name, if the key has only its hash.
    pub(crate) name: Option<ResourceName>,
}

/// The beginning of a value, which can be read and replaced without the rest.
#[derive(Serialize, Deserialize)]
struct Front {
    client_id: ClientId,
    since: u64,
    serial: u64,
    place: u64,
    mark: u64,
}

impl Value {
    pub(crate) fn encode(&self) -> Vec<u8> {
        encoded(self)
    }

    /// `None` if navlock has not written these bytes.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut value: Self = postcard::from_bytes(bytes.strip_prefix(&[VERSION])?).ok()?;
        // A list keeps many values, and no room for what was in them besides.
        value.info.meta.truncate(MOST_META);
        value.info.meta.shrink_to_fit();
        value.said.inside.truncate(MOST_INSIDE);
        value.said.inside.shrink_to_fit();
        Some(value)
    }

    /// A value, and the bytes that were appended to it.
    pub(crate) fn split(bytes: &[u8]) -> (&[u8], &[u8]) {
        let read = bytes.strip_prefix(&[VERSION]).map(postcard::take_from_bytes::<Self>);
        let appended = read.and_then(Result::ok).map_or(0, |(_, appended)| appended.len());
        bytes.split_at(bytes.len() - appended)
    }

    /// The beginning of a value, and the bytes after it.
    fn front(bytes: &[u8]) -> Option<(Front, &[u8])> {
        postcard::take_from_bytes(bytes.strip_prefix(&[VERSION])?).ok()
    }

    /// Decodes only the client id; `None` if navlock has not written the value.
    pub(crate) fn client_id(bytes: &[u8]) -> Option<ClientId> {
        Self::front(bytes).map(|(front, _)| front.client_id)
    }

    /// The place in a value.
    pub(crate) fn place(bytes: &[u8]) -> u64 {
        Self::front(bytes).map_or(0, |(front, _)| front.place)
    }

    /// The mark in a value.
    pub(crate) fn mark(bytes: &[u8]) -> u64 {
        Self::front(bytes).map_or(0, |(front, _)| front.mark)
    }

    /// This value with another time and another place, and without a mark.
    pub(crate) fn restamp(bytes: &[u8], since: u64, place: u64) -> Vec<u8> {
        Self::with_front(bytes, |front| Front { since, place, mark: 0, ..front })
    }

    /// This value with this mark.
    pub(crate) fn marked(bytes: &[u8], mark: u64) -> Vec<u8> {
        Self::with_front(bytes, |front| Front { mark, ..front })
    }

    /// A value that navlock has not written stays as it is.
    fn with_front(bytes: &[u8], change: impl FnOnce(Front) -> Front) -> Vec<u8> {
        Self::front(bytes).map_or_else(
            || bytes.to_vec(),
            |(front, rest)| [encoded(&change(front)), rest.to_vec()].concat(),
        )
    }
}

fn encoded(what: &impl Serialize) -> Vec<u8> {
    postcard::to_extend(what, vec![VERSION]).expect("memory grows, and all lengths are known")
}

#[cfg(test)]
mod tests {
    use navlock_core::look::{LockId, Patience};

    use super::*;
    use crate::keys::NameKey;

    #[test]
    fn values_are_read_as_they_were_written() {
        let name = ResourceName::from_utf16(&[0xD800, 0x61]).unwrap();
        let mut info = AgentInfo::default();
        info.command = "make".to_owned();
        info.meta = vec![("url".to_owned(), "x".to_owned()), ("job".to_owned(), String::new())];
        let infos = [AgentInfo::default(), info];
        let both =
            infos.into_iter().flat_map(|info| [(None, info.clone()), (Some(name.clone()), info)]);
        let both = both.flat_map(|(name, info)| {
            [
                (Patience::Endless, "", Vec::new()),
                (Patience::MayGiveUp, "", Vec::new()),
                (Patience::GivesWay, "", vec![outer("default", 7), outer("", 9)]),
                (Patience::Endless, "nightly", vec![outer("default", 7)]),
            ]
            .map(|(patience, why, inside)| RequestNotes { patience, why: why.to_owned(), inside })
            .map(|said| (name.clone(), info.clone(), said))
        });
        for (name, info, said) in both {
            let client_id = ClientId::random();
            let value =
                Value { client_id, since: 7, serial: 5, place: 3, mark: 9, info, said, name };
            let bytes = value.encode();
            assert_eq!(Value::decode(&bytes), Some(value.clone()));
            assert_eq!(Value::client_id(&bytes), Some(client_id));
            assert_eq!(Value::place(&bytes), 3);
            assert_eq!(Value::mark(&bytes), 9);
            let marked = Value { mark: u64::MAX, ..value.clone() };
            assert_eq!(Value::decode(&Value::marked(&bytes, u64::MAX)), Some(marked));
            let later = Value { since: u64::MAX, place: 1, mark: 0, ..value.clone() };
            assert_eq!(Value::decode(&Value::restamp(&bytes, u64::MAX, 1)), Some(later));
            for cut in 0..bytes.len() {
                assert_eq!(Value::decode(&bytes[..cut]), None);
            }
            let appended = [&*bytes, b"more"].concat();
            assert_eq!(Value::decode(&appended), Some(value));
            assert_eq!(Value::split(&appended), (&*bytes, &b"more"[..]));
        }
    }

    #[test]
    fn what_is_no_value_of_ours_is_left_as_it_is() {
        for other in [&b""[..], b"\x04old", b"text"] {
            assert_eq!(Value::decode(other), None);
            assert_eq!((Value::client_id(other), Value::mark(other)), (None, 0));
            assert_eq!(Value::restamp(other, 1, 1), other);
            assert_eq!(Value::split(other), (other, &b""[..]));
        }
    }

    fn outer(bucket: &str, made: i64) -> Outer {
        let lock = LockId { client_id: ClientId::from_bytes([8; 16]), serial: 5 };
        let long = "n".repeat(usize::try_from(made).unwrap() * 40);
        let name = NameKey::new(&(*long).try_into().unwrap());
        Outer { bucket: bucket.to_owned(), name, lock }
    }

    /// A value with this description and these notes.
    fn value(info: AgentInfo, said: RequestNotes) -> Value {
        let client_id = ClientId::random();
        Value { client_id, since: 0, serial: 0, place: 0, mark: 0, info, said, name: None }
    }

    #[test]
    fn the_bytes_of_a_value_stay_as_they_are_as_long_as_its_version_does() {
        let info = AgentInfo::default().pid(7).command("make").meta("url", "http://x");
        let said = RequestNotes {
            patience: Patience::Endless,
            why: "test".to_owned(),
            inside: vec![outer("b", 1)],
        };
        let client_id = ClientId::from_bytes([9; 16]);
        let of = Value { client_id, since: 300, mark: 2, ..value(info, said) };
        let known =
            b"\x05\x10\x09\x09\x09\x09\x09\x09\x09\x09\x09\x09\x09\x09\x09\x09\x09\x09\xac\x02\
            \x00\x00\x02\x07\x00\x04make\x00\x00\x00\x01\x03url\x08http://x\x00\x04test\x01\
            \x01b(nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn\x10\x08\x08\x08\x08\x08\x08\x08\x08\
            \x08\x08\x08\x08\x08\x08\x08\x08\x05\x00";
        assert_eq!(of.encode(), known);
    }

    #[test]
    fn of_many_notes_some_are_read() {
        let inside: Vec<_> = (0..20).map(|nth| outer("b", nth)).collect();
        let mut info = AgentInfo::default();
        info.meta = vec![(String::new(), String::new()); 20];
        let many = value(info, RequestNotes { inside, ..RequestNotes::default() });
        let read = Value::decode(&many.encode()).unwrap();
        assert_eq!(read.said.inside, many.said.inside[..MOST_INSIDE]);
        assert_eq!(read.info.meta.len(), MOST_META);
    }

    #[test]
    fn a_name_that_cannot_be_spelled_is_not_read() {
        let name = NameKey::new(&"db".try_into().unwrap());
        let lock = LockId { client_id: ClientId::from_bytes([8; 16]), serial: 5 };
        let inside = vec![Outer { bucket: String::new(), name, lock }];
        let said = RequestNotes { inside, ..RequestNotes::default() };
        let bytes = value(AgentInfo::default(), said).encode();
        let at = bytes.windows(2).position(|two| two == b"db").unwrap();
        let wrong = [&bytes[..at], b"/b", &bytes[at + 2..]].concat();
        assert!(Value::decode(&bytes).is_some());
        assert_eq!(Value::decode(&wrong), None);
    }
}
