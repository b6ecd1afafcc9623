//! Texts of others, made fit to be shown: commands, reasons and names can contain anything.

pub(crate) use navlock::host::printable;
#[cfg(any(feature = "top", feature = "web"))]
use navlock::look::LockName;
use navlock::{AgentInfo, ResourceName, host::is_harmless};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// How wide a name is shown at most. Only programs get whole names: a name of a mebibyte would make
/// its column this wide for all other names.
pub(crate) const WIDEST_NAME: usize = 48;

/// A name of this many units is shown by its beginning alone. A unit takes at most two columns.
const LONG_NAME: usize = 1024;

/// A name for a table: unchanged, or in quotes where the name itself could mislead.
pub(crate) fn plain_name(name: &ResourceName) -> String {
    // Within a name, a quote or a backslash is harmless. At its beginning, a quote would say that
    // the rest is escaped.
    match name.as_str() {
        Some(text)
            if !text.is_empty() && !text.starts_with('"') && text.chars().all(is_harmless) =>
        {
            text.to_owned()
        }
        _ => format!("{name:?}"),
    }
}

/// A name for a table, in no more than this many columns.
///
/// FAST: a name may be a mebibyte long. Of so long a name only the beginning is looked at.
pub(crate) fn short_name(name: &ResourceName, widest: usize) -> String {
    let mut beginning: Vec<u16> = name.utf16().take(LONG_NAME).collect();
    if beginning.len() < LONG_NAME {
        return shortened(&plain_name(name), widest);
    }
    // The name must not be cut in the middle of a character.
    if beginning.last().is_some_and(|last| (0xD800..0xDC00).contains(last)) {
        beginning.pop();
    }
    let beginning = ResourceName::from_utf16(&beginning);
    clipped(&plain_name(beginning.as_ref().unwrap_or(name)), widest)
}

/// The length of a name in bytes. The amount of data of others that is kept must be bounded, and a
/// name can be a mebibyte long.
#[cfg(any(feature = "top", feature = "web"))]
pub(crate) fn bytes_of(name: &LockName) -> usize {
    name.bucket.len() + name.name.as_bytes().len()
}

/// A name for a sentence.
pub(crate) fn quoted_name(name: &ResourceName) -> String {
    shortened(&format!("{name:?}"), WIDEST_NAME)
}

/// How many columns of a terminal the text takes.
pub(crate) fn width(text: &str) -> usize {
    text.width()
}

/// The text, or its beginning and "…", in no more than this many columns.
pub(crate) fn clipped(text: &str, widest: usize) -> String {
    if width(text) <= widest {
        return text.to_owned();
    }
    let Some(room) = widest.checked_sub(1) else { return String::new() };
    let mut taken = 0;
    let mut shown: String = text
        .chars()
        .take_while(|char| {
            taken += char.width().unwrap_or(0);
            taken <= room
        })
        .collect();
    shown.push('…');
    shown
}

/// The text, or its beginning and its end with "…" between them, in no more than this many columns: names differ
/// at the end as often as at the beginning.
pub(crate) fn shortened(text: &str, widest: usize) -> String {
    if width(text) <= widest {
        return text.to_owned();
    }
    let mut shown = clipped(text, widest.min(widest / 2 + 1));
    let room = widest.saturating_sub(width(&shown));
    let mut taken = 0;
    let end = text.chars().rev().take_while(|char| {
        taken += char.width().unwrap_or(0);
        taken <= room
    });
    let end: Vec<_> = end.collect();
    shown.extend(end.into_iter().rev());
    shown
}

/// `user@host`, as far as it is known.
pub(crate) fn user_at_host(agent: &AgentInfo) -> String {
    let (user, host) = (printable(&agent.user), printable(&agent.host));
    if host.is_empty() { user } else { format!("{user}@{host}") }
}

/// A text which says that this many entries are not shown.
pub(crate) fn left_out(count: u64) -> String {
    if count == 1 {
        "1 more lock or request is not shown".to_owned()
    } else {
        format!("{count} more locks and requests are not shown")
    }
}

/// An agent's own keys and values: `key=value, key=value`.
pub(crate) fn meta(agent: &AgentInfo) -> String {
    let meta = agent.meta.iter();
    let meta: Vec<_> =
        meta.map(|(key, is)| format!("{}={}", printable(key), printable(is))).collect();
    meta.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_shown_as_it_is_or_quoted_where_that_could_mislead() {
        for (name, shown) in [
            ("db", "db"),
            ("it's a \"name\", \u{e9}", "it's a \"name\", \u{e9}"),
            ("", "\"\""),
            ("a\nb", r#""a\nb""#),
            ("\u{1b}[2J", r#""\u{1b}[2J""#),
            ("a\u{202e}b", r#""a\u{202e}b""#),
            ("a\u{2028}b", r#""a\u{2028}b""#),
            ("\"db\"", r#""\"db\"""#),
        ] {
            assert_eq!(plain_name(&ResourceName::try_from(name).unwrap()), shown);
        }
    }

    #[test]
    fn of_a_long_name_both_ends_are_shown_and_of_a_very_long_one_the_beginning() {
        for long in ["x", "日", "😀", "\u{1b}[2J", "\u{202e}", "é"] {
            for count in [1, 10, 500] {
                let name = ResourceName::try_from(&*long.repeat(count)).unwrap();
                for widest in [0, 1, 7, 48] {
                    let is_very_long = name.utf16().count() >= LONG_NAME;
                    let cut = if is_very_long { clipped } else { shortened };
                    let shown = cut(&plain_name(&name), widest);
                    assert_eq!(short_name(&name, widest), shown, "{long:?} {count} {widest}");
                    assert!(width(&shown) <= widest);
                }
            }
        }
    }

    #[test]
    fn a_text_that_is_too_wide_keeps_its_ends() {
        assert_eq!(shortened("production", 10), "production");
        assert_eq!(shortened("production", 9), "prod…tion");
        assert_eq!(shortened("日本語日本語", 6), "日…語");
        assert_eq!(shortened("ab", 1), "…");
        assert_eq!(shortened("ab", 0), "");
    }

    #[test]
    fn a_text_that_is_too_wide_is_clipped_by_columns() {
        assert_eq!(clipped(&"é".repeat(48), 48), "é".repeat(48));
        assert_eq!(clipped(&"é".repeat(49), 48), format!("{}…", "é".repeat(47)));
        assert_eq!(clipped("日本語日本語", 6), "日本…");
        assert_eq!(clipped("ab", 1), "…");
        assert_eq!(clipped("ab", 0), "");
    }
}
