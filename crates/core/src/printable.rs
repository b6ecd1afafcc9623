//! Texts of others, made safe for terminals: names, commands and reasons can contain anything.

/// The text with everything escaped that is not [harmless](is_harmless).
///
/// ```
/// # use navlock::host;
/// assert_eq!(host::printable("make\r\n"), r"make\r\n");
/// ```
pub fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for char in text.chars() {
        if is_harmless(char) {
            shown.push(char);
        } else {
            shown.extend(char.escape_debug());
        }
    }
    shown
}

/// Whether the character cannot move the cursor of a terminal, turn a line around or end it.
pub fn is_harmless(char: char) -> bool {
    matches!(char, '"' | '\'' | '\\') || char.escape_debug().len() == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_of_others_does_nothing_to_the_terminal() {
        assert_eq!(
            printable("a\u{1b}[2J\r\n\u{9b}1m\u{202e}\"é\\"),
            concat!(r"a\u{1b}[2J\r\n\u{9b}1m\u{202e}", "\"é\\")
        );
    }
}
