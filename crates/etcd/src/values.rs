//! The values of the keys: who holds or waits, and since when. Decisions depend on the keys alone,
//! not on the values.

use navlock_core::{
    AgentInfo, ClientId, ResourceName,
    host::{NameRef, clip_bytes},
    look::Patience,
};

use crate::keys::{NameKey, RequestKey};

/// The first byte of each value.
const VERSION: u8 = 3;

/// The bytes of the mark in a value.
const MARK: std::ops::Range<usize> = 41..49;

/// The value of the key of a request, a lock or an owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Value {
    pub(crate) client_id: ClientId,
    /// When the request was made, or the lock granted, in milliseconds since 1970 by the clock of
    /// the machine that wrote the value.
    pub(crate) since: u64,
    /// When the request was made, in nanoseconds on the monotonic clock of its machine. This is for
    /// a connection of the same machine that takes over the request.
    pub(crate) asked: u64,
    /// The place among the keys that the same revision has created. The first key has the smallest
    /// number.
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

/// What is said of a request that waits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RequestNotes {
    /// How long the request waits.
    pub(crate) patience: Patience,
    /// What its lock is for, if it says so itself. This is said when the request is made, and stays
    /// true of the lock.
    pub(crate) why: String,
    /// The locks inside which it was made.
    pub(crate) inside: Vec<Outer>,
}

/// A lock inside which a request was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outer {
    /// The name of the lock's bucket.
    pub(crate) bucket: String,
    /// The name of the lock.
    pub(crate) name: NameKey,
    /// The part of the key that identifies the lock.
    pub(crate) request: RequestKey,
    /// The revision of its grant.
    pub(crate) made: i64,
}

/// At most this many locks are written, and only locks in buckets whose names are not too long.
/// Nothing is known of other locks.
pub(crate) const MOST_INSIDE: usize = 16;
pub(crate) const LONGEST_BUCKET: usize = 128;

impl Value {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let name = self.name.as_ref().map(ResourceName::as_bytes).unwrap_or_default();
        let (since, place) = (self.since.to_be_bytes(), self.place.to_be_bytes());
        let (asked, mark) = (self.asked.to_be_bytes(), self.mark.to_be_bytes());
        let is_empty = self.info == AgentInfo::default() && self.said == RequestNotes::default();
        let info = if is_empty { Vec::new() } else { encode_info(&self.info, &self.said) };
        let length = u32::try_from(info.len()).unwrap_or_default().to_be_bytes();
        let client_id = self.client_id.to_bytes();
        [&[VERSION][..], &client_id, &since, &place, &asked, &mark, &length, &info, name].concat()
    }

    /// `None` if navlock has not written these bytes.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (&[VERSION], rest) = bytes.split_first_chunk()? else {
            return None;
        };
        let (client_id, rest) = rest.split_first_chunk()?;
        let (since, rest) = rest.split_first_chunk()?;
        let (place, rest) = rest.split_first_chunk()?;
        let (asked, rest) = rest.split_first_chunk()?;
        let (mark, rest) = rest.split_first_chunk()?;
        let (length, rest) = rest.split_first_chunk()?;
        let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
        let (info, name) = rest.split_at_checked(length)?;
        let (info, said) = if info.is_empty() { Default::default() } else { decode_info(info)? };
        let name = match name {
            [] => None,
            name => Some(ResourceName::from_wtf8(name).ok()?),
        };
        let client_id = ClientId::from_bytes(*client_id);
        let (since, place) = (u64::from_be_bytes(*since), u64::from_be_bytes(*place));
        let (asked, mark) = (u64::from_be_bytes(*asked), u64::from_be_bytes(*mark));
        Some(Self { client_id, since, asked, place, mark, info, said, name })
    }

    /// Decodes only the client id; `None` if navlock has not written the value.
    pub(crate) fn client_id(bytes: &[u8]) -> Option<ClientId> {
        let (&[VERSION], rest) = bytes.split_first_chunk()? else {
            return None;
        };
        Some(ClientId::from_bytes(*rest.first_chunk()?))
    }

    /// This value with another time and another place, and without a mark.
    pub(crate) fn restamp(bytes: &[u8], since: u64, place: u64) -> Vec<u8> {
        let mut bytes = bytes.to_vec();
        for (range, number) in [(17..25, since), (25..33, place), (MARK, 0)] {
            if let Some(old) = bytes.get_mut(range) {
                old.copy_from_slice(&number.to_be_bytes());
            }
        }
        bytes
    }

    /// The place in a value.
    pub(crate) fn place(bytes: &[u8]) -> u64 {
        let place = bytes.get(25..33).and_then(|place| place.try_into().ok());
        place.map_or(0, u64::from_be_bytes)
    }

    /// The mark in a value.
    pub(crate) fn mark(bytes: &[u8]) -> u64 {
        let mark = bytes.get(MARK).and_then(|mark| mark.try_into().ok());
        mark.map_or(0, u64::from_be_bytes)
    }

    /// This value with this mark.
    pub(crate) fn marked(bytes: &[u8], mark: u64) -> Vec<u8> {
        let mut bytes = bytes.to_vec();
        if let Some(old) = bytes.get_mut(MARK) {
            old.copy_from_slice(&mark.to_be_bytes());
        }
        bytes
    }
}

/// The version of the encoding of an agent's description, which is numbered separately.
const INFO: u8 = 1;

/// Writes what an agent says of itself, and of a request.
fn encode_info(info: &AgentInfo, said: &RequestNotes) -> Vec<u8> {
    let mut bytes = vec![INFO];
    for number in [info.pid, info.keeper] {
        bytes.extend_from_slice(&number.to_be_bytes());
    }
    let texts = [&info.command, &info.user, &info.host, &info.why];
    // Older releases stop reading before these texts.
    let meta = info.meta.iter().flat_map(|(key, is)| [key, is]);
    for text in texts.into_iter().chain(meta) {
        // Longer texts are cut, because they are of no use to anybody.
        let text = clip_bytes(text, 4096);
        bytes.extend_from_slice(&u16::try_from(text.len()).unwrap_or_default().to_be_bytes());
        bytes.extend_from_slice(text.as_bytes());
    }
    // This makes the number of texts odd. Older releases ignore the text without a partner.
    if *said != RequestNotes::default() {
        let said = said.encode();
        bytes.extend_from_slice(&u16::try_from(said.len()).unwrap_or_default().to_be_bytes());
        bytes.extend_from_slice(&said);
    }
    bytes
}

impl RequestNotes {
    /// The bits in the first byte which say how long the request waits, and the one which says that the text
    /// follows of what its lock is for. The other bits are reserved.
    const PATIENCE: u8 = 0b101;
    const MAY_GIVE_UP: u8 = 1;
    const HAS_WHY: u8 = 2;
    const GIVES_WAY: u8 = 4;

    fn encode(&self) -> Vec<u8> {
        let patience = match self.patience {
            Patience::Endless => 0,
            Patience::GivesWay => Self::GIVES_WAY,
            Patience::MayGiveUp => Self::MAY_GIVE_UP,
        };
        let mut bytes = vec![patience];
        let why = clip_bytes(&self.why, 4096);
        if !why.is_empty() {
            bytes[0] |= Self::HAS_WHY;
            bytes.extend_from_slice(&u16::try_from(why.len()).unwrap_or_default().to_be_bytes());
            bytes.extend_from_slice(why.as_bytes());
        }
        bytes.extend(self.inside.iter().take(MOST_INSIDE).flat_map(Outer::encode));
        bytes
    }

    fn decode(bytes: &[u8]) -> Self {
        let Some((first, mut rest)) = bytes.split_first() else { return Self::default() };
        let patience = match first & Self::PATIENCE {
            0 => Patience::Endless,
            Self::GIVES_WAY => Patience::GivesWay,
            _ => Patience::MayGiveUp,
        };
        let mut notes = Self { patience, ..Self::default() };
        if first & Self::HAS_WHY != 0 {
            let Some((length, after)) = rest.split_first_chunk() else { return notes };
            let length = usize::from(u16::from_be_bytes(*length));
            let Some((why, after)) = after.split_at_checked(length) else { return notes };
            notes.why = String::from_utf8_lossy(why).into_owned();
            rest = after;
        }
        notes.inside = Outer::decode_all(rest);
        notes
    }
}

impl Outer {
    /// The reference of a lock. Everybody who lists the lock's name can compute it.
    pub(crate) fn called(request: RequestKey, made: i64) -> [u8; 32] {
        let mut called = [0; 32];
        called[..16].copy_from_slice(&request.owner.to_be_bytes());
        called[16..24].copy_from_slice(&request.slot.to_be_bytes());
        called[24..].copy_from_slice(&made.to_be_bytes());
        called
    }

    fn encode(&self) -> Vec<u8> {
        let bucket = if self.bucket.len() > LONGEST_BUCKET { "" } else { &self.bucket };
        let called = Self::called(self.request, self.made);
        let name = self.name.to_ref();
        let length = |bytes: &[u8]| [u8::try_from(bytes.len()).unwrap_or_default()];
        let (before, between) = (length(bucket.as_bytes()), length(&name.0));
        [&called[..], &before, bucket.as_bytes(), &between, &name.0].concat()
    }

    /// Decodes the first of several locks, and returns the rest of the bytes.
    fn decode(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (owner, rest) = bytes.split_first_chunk()?;
        let (slot, rest) = rest.split_first_chunk()?;
        let (made, rest) = rest.split_first_chunk()?;
        let (&length, rest) = rest.split_first()?;
        let (bucket, rest) = rest.split_at_checked(usize::from(length))?;
        let bucket = String::from_utf8(bucket.to_vec()).ok()?;
        let (&length, rest) = rest.split_first()?;
        let (name, rest) = rest.split_at_checked(usize::from(length))?;
        let name = NameKey::of_ref(NameRef(name.into()))?;
        let request =
            RequestKey { owner: u128::from_be_bytes(*owner), slot: u64::from_be_bytes(*slot) };
        Some((Self { bucket, name, request, made: i64::from_be_bytes(*made) }, rest))
    }

    /// Decodes all locks whose encoding this release knows.
    fn decode_all(mut bytes: &[u8]) -> Vec<Self> {
        let mut all = Vec::new();
        while let Some((outer, rest)) = Self::decode(bytes).filter(|_| all.len() < MOST_INSIDE) {
            all.push(outer);
            bytes = rest;
        }
        all
    }
}

/// How many pairs of an agent's metadata are read at most. A broker writes no more: this is `MAX_META` of
/// `navlock-wire`, on which only this crate's tests depend.
const MOST_META: usize = 16;

/// Decodes a description; `None` if navlock has not written it.
fn decode_info(bytes: &[u8]) -> Option<(AgentInfo, RequestNotes)> {
    let (&[INFO], rest) = bytes.split_first_chunk()? else {
        return None;
    };
    let (pid, rest) = rest.split_first_chunk()?;
    let (keeper, mut rest) = rest.split_first_chunk()?;
    let mut info = AgentInfo::default();
    (info.pid, info.keeper) = (u32::from_be_bytes(*pid), u32::from_be_bytes(*keeper));
    for text in [&mut info.command, &mut info.user, &mut info.host, &mut info.why] {
        let (length, after) = rest.split_first_chunk()?;
        let (read, after) = after.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
        *text = String::from_utf8_lossy(read).into_owned();
        rest = after;
    }
    let mut meta = Vec::new();
    while !rest.is_empty() {
        let (length, after) = rest.split_first_chunk()?;
        let (read, after) = after.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
        meta.push(read);
        rest = after;
    }
    let pairs = meta.chunks_exact(2);
    let said = pairs.remainder().first().map(|said| RequestNotes::decode(said));
    let text = |text: &[u8]| String::from_utf8_lossy(text).into_owned();
    info.meta = pairs.take(MOST_META).map(|pair| (text(pair[0]), text(pair[1]))).collect();
    Some((info, said.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_pairs_are_read_as_clients_may_send() {
        assert_eq!(MOST_META, navlock_wire::MAX_META);
    }

    #[test]
    fn values_are_read_as_they_were_written() {
        let name = ResourceName::from_utf16(&[0xD800, 0x61]).unwrap();
        let mut info = AgentInfo::default();
        info.command = "make".to_owned();
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
                Value { client_id, since: 7, asked: 5, place: 3, mark: 9, info, said, name };
            let bytes = value.encode();
            assert_eq!(Value::decode(&bytes), Some(value.clone()));
            assert_eq!(Value::client_id(&bytes), Some(client_id));
            assert_eq!(Value::place(&bytes), 3);
            assert_eq!(Value::mark(&bytes), 9);
            let marked = Value { mark: u64::MAX, ..value.clone() };
            assert_eq!(Value::decode(&Value::marked(&bytes, u64::MAX)), Some(marked));
            let later = Value { since: u64::MAX, place: 1, mark: 0, ..value };
            assert_eq!(Value::decode(&Value::restamp(&bytes, u64::MAX, 1)), Some(later));
            for cut in 0..53 {
                assert_eq!(Value::decode(&bytes[..cut]), None);
            }
        }
    }

    fn outer(bucket: &str, made: i64) -> Outer {
        let request = RequestKey { owner: u128::MAX - 3, slot: 5 };
        let long = "n".repeat(usize::try_from(made).unwrap() * 40);
        let name = NameKey::new(&(*long).try_into().unwrap());
        Outer { bucket: bucket.to_owned(), name, request, made }
    }

    #[test]
    fn notes_of_a_request_are_skipped_by_releases_that_do_not_know_them() {
        let mut info = AgentInfo::default();
        info.meta = vec![("url".to_owned(), "x".to_owned())];
        let inside: Vec<_> = (0..20).map(|nth| outer(&"b".repeat(LONGEST_BUCKET), nth)).collect();
        let said =
            RequestNotes { patience: Patience::MayGiveUp, inside, ..RequestNotes::default() };
        let bytes = encode_info(&info, &said);
        // Of many, some.
        let read = decode_info(&bytes).unwrap();
        let some = RequestNotes { inside: said.inside[..MOST_INSIDE].to_vec(), ..said };
        assert_eq!(read, (info.clone(), some));
        // Older releases read pairs of texts, and write no more.
        let older = encode_info(&info, &RequestNotes::default());
        let text = bytes.strip_prefix(&*older).unwrap();
        assert_eq!(usize::from(u16::from_be_bytes([text[0], text[1]])), text.len() - 2);
        assert!((older.len() + 1..bytes.len()).all(|cut| decode_info(&bytes[..cut]).is_none()));
    }

    #[test]
    fn a_description_of_an_agent_is_read_as_it_was_written() {
        let mut info = AgentInfo::default();
        (info.pid, info.keeper) = (17, 16);
        info.command = "ö".repeat(5000);
        info.host = "here".to_owned();
        let bytes = encode_info(&info, &RequestNotes::default());
        let (read, _) = decode_info(&bytes).unwrap();
        assert_eq!((read.pid, read.keeper, &*read.host, &*read.why), (17, 16, "here", ""));
        assert_eq!(read.command, "ö".repeat(2048));
        for cut in 0..bytes.len() {
            assert_eq!(decode_info(&bytes[..cut]), None);
        }
        info.meta = vec![("url".to_owned(), "x".to_owned()), ("job".to_owned(), String::new())];
        let with_meta = encode_info(&info, &RequestNotes::default());
        assert_eq!(decode_info(&with_meta).unwrap().0.meta, info.meta);
        // Older releases read what stands before, and write no more.
        assert!(with_meta.starts_with(&bytes));
        assert_eq!(decode_info(&with_meta[..with_meta.len() - 1]), None);
    }
}
