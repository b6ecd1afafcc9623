//! What stands behind the keys: nothing that decides anything, but whose they are.

use navlock_core::{AgentInfo, ClientId, ResourceName};

/// The first byte of each value.
const VERSION: u8 = 2;

/// What stands behind the key of a request or lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Value {
    pub(crate) client_id: ClientId,
    /// When it was made or granted, in milliseconds since 1970 by the clock of who wrote it.
    pub(crate) since: u64,
    /// When it was asked for, in nanoseconds on the monotonic clock of who did: for whoever goes on
    /// with it on the same machine.
    pub(crate) asked: u64,
    /// Its place among those that the same revision has made: the first is the smallest.
    pub(crate) place: u64,
    /// What its agent has said of itself before it asked.
    pub(crate) info: AgentInfo,
    /// The name, if its key has only its hash.
    pub(crate) name: Option<ResourceName>,
}

impl Value {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let name = self.name.as_ref().map(ResourceName::as_bytes).unwrap_or_default();
        let (since, place) = (self.since.to_be_bytes(), self.place.to_be_bytes());
        let asked = self.asked.to_be_bytes();
        let info =
            if self.info == AgentInfo::default() { Vec::new() } else { encode_info(&self.info) };
        let length = u32::try_from(info.len()).unwrap_or_default().to_be_bytes();
        let client_id = self.client_id.to_bytes();
        [&[VERSION][..], &client_id, &since, &place, &asked, &length, &info, name].concat()
    }

    /// `None` if it is none of ours.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (&[VERSION], rest) = bytes.split_first_chunk()? else {
            return None;
        };
        let (client_id, rest) = rest.split_first_chunk()?;
        let (since, rest) = rest.split_first_chunk()?;
        let (place, rest) = rest.split_first_chunk()?;
        let (asked, rest) = rest.split_first_chunk()?;
        let (length, rest) = rest.split_first_chunk()?;
        let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
        let (info, name) = rest.split_at_checked(length)?;
        let info = if info.is_empty() { AgentInfo::default() } else { decode_info(info)? };
        let name = match name {
            [] => None,
            name => Some(ResourceName::from_wtf8(name).ok()?),
        };
        let client_id = ClientId::from_bytes(*client_id);
        let (since, place) = (u64::from_be_bytes(*since), u64::from_be_bytes(*place));
        Some(Self { client_id, since, asked: u64::from_be_bytes(*asked), place, info, name })
    }

    /// Whose it is, without all the rest; `None` if it is none of ours.
    pub(crate) fn client_id(bytes: &[u8]) -> Option<ClientId> {
        let (&[VERSION], rest) = bytes.split_first_chunk()? else {
            return None;
        };
        Some(ClientId::from_bytes(*rest.first_chunk()?))
    }

    /// The same, with another moment and another place written over it.
    pub(crate) fn restamp(bytes: &[u8], since: u64, place: u64) -> Vec<u8> {
        let mut bytes = bytes.to_vec();
        for (range, number) in [(17..25, since), (25..33, place)] {
            if let Some(old) = bytes.get_mut(range) {
                old.copy_from_slice(&number.to_be_bytes());
            }
        }
        bytes
    }

    /// The place that is written there.
    pub(crate) fn place(bytes: &[u8]) -> u64 {
        let place = bytes.get(25..33).and_then(|place| place.try_into().ok());
        place.map_or(0, u64::from_be_bytes)
    }
}

/// The form of what an agent says of itself, whatever stands around it.
const INFO: u8 = 1;

/// Writes what an agent says of itself.
fn encode_info(info: &AgentInfo) -> Vec<u8> {
    let mut bytes = vec![INFO];
    bytes.extend_from_slice(&info.pid.to_be_bytes());
    let texts = [&info.command, &info.user, &info.host, &info.why];
    // Whoever is of an older release reads no further than those.
    let meta = info.meta.iter().flat_map(|(key, is)| [key, is]);
    for text in texts.into_iter().chain(meta) {
        // What is longer is of no use to anybody.
        let end = text.char_indices().map(|(at, _)| at).take_while(|&at| at <= 4096).last();
        let text = if text.len() > 4096 { &text[..end.unwrap_or(0)] } else { text };
        bytes.extend_from_slice(&u16::try_from(text.len()).unwrap_or_default().to_be_bytes());
        bytes.extend_from_slice(text.as_bytes());
    }
    bytes
}

/// So much is read of what an agent says besides: more was not written by a broker.
const MOST_META: usize = 16;

/// Reads it; `None` if it is none of ours.
fn decode_info(bytes: &[u8]) -> Option<AgentInfo> {
    let (&[INFO], rest) = bytes.split_first_chunk()? else {
        return None;
    };
    let (pid, mut rest) = rest.split_first_chunk()?;
    let mut info = AgentInfo::default();
    info.pid = u32::from_be_bytes(*pid);
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
        meta.push(String::from_utf8_lossy(read).into_owned());
        rest = after;
    }
    let pairs = meta.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone()));
    info.meta = pairs.take(MOST_META).collect();
    Some(info)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_as_they_were_written() {
        let name = ResourceName::from_utf16(&[0xD800, 0x61]).unwrap();
        let mut info = AgentInfo::default();
        info.command = "make".to_owned();
        let infos = [AgentInfo::default(), info];
        let both =
            infos.into_iter().flat_map(|info| [(None, info.clone()), (Some(name.clone()), info)]);
        for (name, info) in both {
            let client_id = ClientId::random();
            let value = Value { client_id, since: 7, asked: 5, place: 3, info, name };
            let bytes = value.encode();
            assert_eq!(Value::decode(&bytes), Some(value.clone()));
            assert_eq!(Value::client_id(&bytes), Some(client_id));
            assert_eq!(Value::place(&bytes), 3);
            let later = Value { since: u64::MAX, place: 1, ..value };
            assert_eq!(Value::decode(&Value::restamp(&bytes, u64::MAX, 1)), Some(later));
            for cut in 0..45 {
                assert_eq!(Value::decode(&bytes[..cut]), None);
            }
        }
    }

    #[test]
    fn what_an_agent_says_is_read_as_it_was_written() {
        let mut info = AgentInfo::default();
        info.pid = 17;
        info.command = "ö".repeat(5000);
        info.host = "here".to_owned();
        let bytes = encode_info(&info);
        let read = decode_info(&bytes).unwrap();
        assert_eq!((read.pid, &*read.host, &*read.why), (17, "here", ""));
        assert_eq!(read.command, "ö".repeat(2048));
        for cut in 0..bytes.len() {
            assert_eq!(decode_info(&bytes[..cut]), None);
        }
        info.meta = vec![("url".to_owned(), "x".to_owned()), ("job".to_owned(), String::new())];
        let with_meta = encode_info(&info);
        assert_eq!(decode_info(&with_meta).unwrap().meta, info.meta);
        // Older releases read what stands before, and write no more.
        assert!(with_meta.starts_with(&bytes));
        assert_eq!(decode_info(&with_meta[..with_meta.len() - 1]), None);
    }
}
