//! WTF-8: UTF-8 that has lone surrogates as well, each in the three bytes that it would have if it were a
//! character.

/// The three bytes of a surrogate in WTF-8.
pub(super) fn surrogate(unit: u16) -> [u8; 3] {
    let [high, low] = unit.to_be_bytes();
    [0xE0 | high >> 4, 0x80 | (high & 0x0F) << 2 | low >> 6, 0x80 | low & 0x3F]
}

/// Takes the first code point off WTF-8 bytes; `None` at their end.
#[inline]
pub(super) fn decode(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (&lead, bytes) = bytes.split_first()?;
    let (length, lead) = match lead {
        0x00..=0x7F => (0, lead),
        0x80..=0xDF => (1, lead & 0x1F),
        0xE0..=0xEF => (2, lead & 0x0F),
        0xF0..=0xFF => (3, lead & 0x07),
    };
    let (trail, rest) = bytes.split_at_checked(length)?;
    let code_point = trail
        .iter()
        .fold(u32::from(lead), |code_point, &byte| code_point << 6 | u32::from(byte & 0x3F));
    Some((code_point, rest))
}

/// The one or two UTF-16 code units of a code point.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "both arms are below 2^16 by their ranges")]
pub(super) fn to_units(code_point: u32) -> (u16, Option<u16>) {
    match code_point.checked_sub(0x1_0000) {
        None => (code_point as u16, None),
        Some(offset) => {
            (0xD800 | (offset >> 10 & 0x3FF) as u16, Some(0xDC00 | (offset & 0x3FF) as u16))
        }
    }
}

/// `Err` with the number of good bytes if these are not WTF-8.
pub(super) fn check(bytes: &[u8]) -> Result<(), usize> {
    let mut at = 0;
    let mut after_high_surrogate = false;
    loop {
        // Most of it is UTF-8. Where UTF-8 stops, only a lone surrogate is allowed.
        let Err(stop) = std::str::from_utf8(&bytes[at..]) else {
            return Ok(());
        };
        if stop.valid_up_to() > 0 {
            after_high_surrogate = false;
        }
        at += stop.valid_up_to();
        match bytes[at..] {
            [0xED, second @ 0xA0..=0xBF, 0x80..=0xBF, ..] => {
                let low = second >= 0xB0;
                if low && after_high_surrogate {
                    // This is a pair spelled as two surrogates, which is refused: there is one
                    // spelling for each string.
                    return Err(at);
                }
                after_high_surrogate = !low;
                at += 3;
            }
            _ => return Err(at),
        }
    }
}
