//! JSON objects, one a line, with their members in the order in which they were added.
//!
//! JSON is only written here, not read. No library is used, because this crate is in every program that
//! has locks, and because no library writes the lone surrogates that names may contain.

use std::fmt::{self, Display, Write};

use navlock_engine::{FencingToken, ResourceName};

use crate::{AgentInfo, look::Entry};

/// A JSON object that is being written. The same thing has the same key in everything that navlock writes
/// for programs.
///
/// ```
/// use navlock::host::Object;
///
/// let object = Object::default().string("event", "missed").number("missed", 7);
/// assert_eq!(object.to_string(), r#"{"event":"missed","missed":7}"#);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Object(String);

impl Object {
    /// Adds a text.
    #[must_use]
    pub fn string(self, key: &str, value: &str) -> Self {
        self.json(key, Text(value))
    }

    /// Adds a number.
    #[must_use]
    pub fn number(self, key: &str, value: u64) -> Self {
        self.json(key, value)
    }

    /// Adds `true` or `false`.
    #[must_use]
    pub fn boolean(self, key: &str, value: bool) -> Self {
        self.json(key, value)
    }

    /// Adds a name without loss: lone surrogates are written as escapes.
    #[must_use]
    pub fn name(self, key: &str, name: &ResourceName) -> Self {
        match name.as_str() {
            Some(text) => self.string(key, text),
            None => self.json(key, Name(name)),
        }
    }

    /// Adds an object.
    #[must_use]
    pub fn object(self, key: &str, value: &Self) -> Self {
        self.json(key, value)
    }

    /// Adds what an agent says of itself, if it says anything.
    #[must_use]
    pub fn agent(self, info: &AgentInfo) -> Self {
        let object = self.process(info, str::to_owned);
        if info.meta.is_empty() {
            return object;
        }
        let meta = info.meta.iter();
        let meta = meta.fold(Self::default(), |meta, (key, is)| meta.string(key, is));
        object.object("meta", &meta)
    }

    /// Adds what an agent says of its process, without the agent's own keys. `shown` changes each
    /// text before it is added.
    #[must_use]
    pub fn process(mut self, info: &AgentInfo, shown: impl Fn(&str) -> String) -> Self {
        if info.pid != 0 {
            self = self.number("pid", info.pid.into());
        }
        let texts = [
            ("command", &info.command),
            ("user", &info.user),
            ("host", &info.host),
            ("why", &info.why),
        ];
        for (key, text) in texts.into_iter().filter(|(_, text)| !text.is_empty()) {
            self = self.string(key, &shown(text));
        }
        if info.keeper == 0 { self } else { self.number("keeper", info.keeper.into()) }
    }

    /// Adds a fencing token. It is a string, because JavaScript's numbers have 53 bits.
    #[must_use]
    pub fn fencing_token(self, token: FencingToken) -> Self {
        self.string("fencingToken", &token.to_string())
    }

    /// Adds what is known of a lock or request, apart from its agent.
    #[must_use]
    pub fn found(mut self, entry: &Entry) -> Self {
        if let Some(token) = entry.token {
            self = self.fencing_token(token);
        }
        if !entry.inside.is_empty() {
            let inside: Vec<_> = entry.inside.iter().map(ToString::to_string).collect();
            self = self.strings("inside", &inside);
        }
        if entry.taken > 0 {
            self = self.number("taken", entry.taken);
        }
        self
    }

    /// Adds a list of objects.
    #[must_use]
    pub fn objects(self, key: &str, values: &[Self]) -> Self {
        self.json(key, List(values))
    }

    /// Adds a list of texts.
    #[must_use]
    pub fn strings(self, key: &str, values: &[String]) -> Self {
        let texts: Vec<_> = values.iter().map(|value| Text(value)).collect();
        self.json(key, List(&texts))
    }

    /// Adds all members of another object.
    #[must_use]
    pub fn with(mut self, other: &Self) -> Self {
        if self.0.is_empty() || other.0.is_empty() {
            self.0.push_str(&other.0);
        } else {
            self.0.push(',');
            self.0.push_str(&other.0[1..]);
        }
        self
    }

    /// Adds a value that is JSON already.
    #[must_use]
    pub fn json(mut self, key: &str, value: impl Display) -> Self {
        let separator = if self.0.is_empty() { '{' } else { ',' };
        // Writing to a string cannot fail.
        let _ = write!(self.0, "{separator}{}:{value}", Text(key));
        self
    }
}

impl Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "{" } else { &self.0 })?;
        f.write_str("}")
    }
}

/// A JSON list of values that are JSON already.
struct List<'a, T>(&'a [T]);

impl<T: Display> Display for List<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('[')?;
        for (at, value) in self.0.iter().enumerate() {
            if at > 0 {
                f.write_char(',')?;
            }
            value.fmt(f)?;
        }
        f.write_char(']')
    }
}

/// A JSON string with this text.
struct Text<'a>(&'a str);

impl Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        escape(self.0, f)?;
        f.write_char('"')
    }
}

/// A JSON string with this name, in which lone surrogates are escaped.
struct Name<'a>(&'a ResourceName);

impl Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        for unit in char::decode_utf16(self.0.utf16()) {
            match unit {
                Ok(char) => escape(char.encode_utf8(&mut [0; 4]), f)?,
                Err(lone) => write!(f, "\\u{:04x}", lone.unpaired_surrogate())?,
            }
        }
        f.write_char('"')
    }
}

fn escape(text: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut rest = text;
    while let Some(at) = rest.find(|char| matches!(char, '"' | '\\' | '\0'..' ')) {
        let (plain, escaped) = rest.split_at(at);
        f.write_str(plain)?;
        let char = escaped.as_bytes()[0];
        match char {
            b'\n' => f.write_str("\\n")?,
            b'\r' => f.write_str("\\r")?,
            b'\t' => f.write_str("\\t")?,
            b'"' | b'\\' => write!(f, "\\{}", char::from(char))?,
            control => write!(f, "\\u{control:04x}")?,
        }
        rest = &escaped[1..];
    }
    f.write_str(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_stand_in_the_order_in_which_they_were_added() {
        let object = Object::default().string("b", "x\"\n\u{7f}").number("a", u64::MAX);
        let object = object.boolean("c", true);
        let text = object.to_string();
        assert_eq!(text, "{\"b\":\"x\\\"\\n\u{7f}\",\"a\":18446744073709551615,\"c\":true}");
        assert_eq!(Object::default().to_string(), "{}");
    }

    #[test]
    fn a_lone_surrogate_survives() {
        let name = ResourceName::from_utf16(&[0x61, 0xD800, 0x22, 0xA, 0xD83D, 0xDE00]).unwrap();
        let text = Object::default().name("name", &name).to_string();
        assert_eq!(text, "{\"name\":\"a\\ud800\\\"\\n😀\"}");
    }
}
