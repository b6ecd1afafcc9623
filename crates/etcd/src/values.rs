//! What stands behind the keys: nothing that decides anything, all of it for `query()` and people.

use navlock_core::{AgentInfo, ClientId, ResourceName};

/// The first byte of each value.
const VERSION: u8 = 1;

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
    /// The name, if its key has only its hash.
    pub(crate) name: Option<ResourceName>,
}

impl Value {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let name = self.name.as_ref().map(ResourceName::as_bytes).unwrap_or_default();
        let (since, place) = (self.since.to_be_bytes(), self.place.to_be_bytes());
        let asked = self.asked.to_be_bytes();
        [&[VERSION][..], &self.client_id.to_bytes(), &since, &place, &asked, name].concat()
    }

    /// `None` if it is none of ours.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (&[VERSION], rest) = bytes.split_first_chunk()? else {
            return None;
        };
        let (client_id, rest) = rest.split_first_chunk()?;
        let (since, rest) = rest.split_first_chunk()?;
        let (place, rest) = rest.split_first_chunk()?;
        let (asked, name) = rest.split_first_chunk()?;
        let name = match name {
            [] => None,
            name => Some(ResourceName::from_wtf8(name).ok()?),
        };
        let client_id = ClientId::from_bytes(*client_id);
        let (since, place) = (u64::from_be_bytes(*since), u64::from_be_bytes(*place));
        Some(Self { client_id, since, asked: u64::from_be_bytes(*asked), place, name })
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

/// Writes what an agent says of itself.
pub(crate) fn encode_info(info: &AgentInfo) -> Vec<u8> {
    let mut bytes = vec![VERSION];
    bytes.extend_from_slice(&info.pid.to_be_bytes());
    for text in [&info.command, &info.user, &info.host, &info.why] {
        // What is longer is of no use to anybody.
        let end = text.char_indices().map(|(at, _)| at).take_while(|&at| at <= 4096).last();
        let text = if text.len() > 4096 { &text[..end.unwrap_or(0)] } else { text };
        bytes.extend_from_slice(&u16::try_from(text.len()).unwrap_or_default().to_be_bytes());
        bytes.extend_from_slice(text.as_bytes());
    }
    bytes
}

/// Reads it; `None` if it is none of ours.
pub(crate) fn decode_info(bytes: &[u8]) -> Option<AgentInfo> {
    let (&[VERSION], rest) = bytes.split_first_chunk()? else {
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
    Some(info)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_as_they_were_written() {
        let name = ResourceName::from_utf16(&[0xD800, 0x61]).unwrap();
        for name in [None, Some(name)] {
            let value = Value { client_id: ClientId::random(), since: 7, asked: 5, place: 3, name };
            let bytes = value.encode();
            assert_eq!(Value::decode(&bytes), Some(value.clone()));
            assert_eq!(Value::place(&bytes), 3);
            let later = Value { since: u64::MAX, place: 1, ..value };
            assert_eq!(Value::decode(&Value::restamp(&bytes, u64::MAX, 1)), Some(later));
            for cut in 0..41 {
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
    }
}
