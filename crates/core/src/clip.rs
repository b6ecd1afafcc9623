//! Cuts texts to a bound, because others can make them as long as they like.

/// The text, or its first characters if it has more than this number.
///
/// ```
/// # use navlock::host;
/// assert_eq!(host::clip_chars("größe", 3), "grö");
/// ```
pub fn clip_chars(text: &str, most: usize) -> &str {
    text.char_indices().nth(most).map_or(text, |(end, _)| &text[..end])
}

/// The text, or as many whole characters from its beginning as fit into this number of bytes.
///
/// ```
/// # use navlock::host;
/// assert_eq!(host::clip_bytes("größe", 3), "gr");
/// ```
pub fn clip_bytes(text: &str, most: usize) -> &str {
    if text.len() <= most {
        return text;
    }
    let end = (0..=most).rev().find(|&end| text.is_char_boundary(end));
    &text[..end.unwrap_or_default()]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of one, two, three and four bytes.
    const TEXT: &str = "aé€😀";

    #[test]
    fn a_text_is_clipped_to_whole_characters_by_their_number() {
        let clipped = [0, 1, 2, 3, 4, 5, usize::MAX].map(|most| clip_chars(TEXT, most));
        assert_eq!(clipped, ["", "a", "aé", "aé€", TEXT, TEXT, TEXT]);
        assert_eq!(clip_chars("", 0), "");
    }

    #[test]
    fn a_text_is_clipped_to_whole_characters_by_their_bytes() {
        let clipped = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9].map(|most| clip_bytes(TEXT, most));
        assert_eq!(clipped, ["", "a", "a", "aé", "aé", "aé", "aé€", "aé€", "aé€", "aé€"]);
        assert_eq!([10, 11, usize::MAX].map(|most| clip_bytes(TEXT, most)), [TEXT; 3]);
        assert_eq!([0, 3].map(|most| clip_bytes("😀", most)), [""; 2]);
        assert_eq!(clip_bytes("", 0), "");
    }
}
