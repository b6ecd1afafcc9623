//! How names of any bytes are spelled in keys.

use sha2::{Digest, Sha256};

/// How many bytes the spelling of a name may have. A key contains only the hash of a longer name,
/// and the name stands beside it: a transaction on etcd contains each key several times, and etcd takes
/// 1.5 MiB at a time; an index of `PostgreSQL` takes 2.7 kB.
pub(crate) const LONGEST: usize = 192;

const HEX: &[u8; 16] = b"0123456789abcdef";

/// Spells bytes so that people can read them in the store. Letters, digits, `.`, `_`,
/// `~` and `-` stay as they are. Other bytes are spelled as `%` and two digits. A spelling that is
/// too long becomes `#` and the hash.
pub(crate) fn spell(bytes: &[u8]) -> Vec<u8> {
    let mut spelled = Vec::with_capacity(bytes.len().min(LONGEST));
    for &byte in bytes {
        if byte.is_ascii_alphanumeric() || b"._~-".contains(&byte) {
            spelled.push(byte);
        } else {
            spelled.extend_from_slice(&[b'%', hex(byte >> 4), hex(byte & 0xF)]);
        }
        if spelled.len() > LONGEST {
            let hash = Sha256::digest(bytes);
            let digits = hash.iter().flat_map(|byte| [hex(byte >> 4), hex(byte & 0xF)]);
            return [b'#'].into_iter().chain(digits).collect();
        }
    }
    spelled
}

/// The bytes that have this spelling.
pub(crate) fn read(spelled: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(spelled.len());
    let mut rest = spelled.iter();
    while let Some(&byte) = rest.next() {
        bytes.push(match byte {
            b'#' => return None,
            b'%' => digit(*rest.next()?)? << 4 | digit(*rest.next()?)?,
            plain => plain,
        });
    }
    Some(bytes)
}

fn hex(half: u8) -> u8 {
    HEX[usize::from(half & 0xF)]
}

fn digit(hex: u8) -> Option<u8> {
    char::from(hex).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}
