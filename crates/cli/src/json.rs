//! JSON objects, one a line, with their members in the order in which they were added.

use std::fmt::{self, Display, Write};

use navlock::{AgentInfo, ResourceName, look::Entry};
use serde_json::Value;

/// An object that is being written.
#[derive(Clone, Default)]
pub(crate) struct Object(String);

impl Object {
    pub(crate) fn string(self, key: &str, value: &str) -> Self {
        self.raw(key, Value::from(value))
    }

    pub(crate) fn number(self, key: &str, value: u64) -> Self {
        self.raw(key, value)
    }

    pub(crate) fn boolean(self, key: &str, value: bool) -> Self {
        self.raw(key, value)
    }

    /// A name, of which nothing is lost: what is no text is written as an escape.
    pub(crate) fn name(self, key: &str, name: &ResourceName) -> Self {
        match name.as_str() {
            Some(text) => self.string(key, text),
            None => self.raw(key, escaped(name)),
        }
    }

    pub(crate) fn object(self, key: &str, value: &Self) -> Self {
        self.raw(key, value)
    }

    /// What an agent says of itself, as far as it does.
    pub(crate) fn agent(self, info: &AgentInfo) -> Self {
        let object = self.process(info, str::to_owned);
        if info.meta.is_empty() {
            return object;
        }
        let meta = info.meta.iter();
        let meta = meta.fold(Self::default(), |meta, (key, is)| meta.string(key, is));
        object.object("meta", &meta)
    }

    /// The same without keys of its own, and each text as it is to be shown.
    pub(crate) fn process(mut self, info: &AgentInfo, shown: impl Fn(&str) -> String) -> Self {
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
        self
    }

    /// What is known of a lock or request besides whose it is.
    pub(crate) fn found(mut self, entry: &Entry) -> Self {
        if let Some(token) = entry.token {
            // JavaScript's numbers have 53 bits.
            self = self.string("fencingToken", &token.to_string());
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

    pub(crate) fn objects(self, key: &str, values: &[Self]) -> Self {
        let values: Vec<_> = values.iter().map(ToString::to_string).collect();
        self.raw(key, format_args!("[{}]", values.join(",")))
    }

    pub(crate) fn strings(self, key: &str, values: &[String]) -> Self {
        self.raw(key, Value::from(values))
    }

    pub(crate) fn value(self, key: &str, value: &Value) -> Self {
        self.raw(key, value)
    }

    /// All that the other one has as well.
    #[cfg(feature = "web")]
    pub(crate) fn with(mut self, other: &Self) -> Self {
        if self.0.is_empty() || other.0.is_empty() {
            self.0.push_str(&other.0);
        } else {
            self.0.push(',');
            self.0.push_str(&other.0[1..]);
        }
        self
    }

    /// What is JSON already.
    #[cfg(feature = "web")]
    pub(crate) fn json(self, key: &str, value: impl Display) -> Self {
        self.raw(key, value)
    }

    fn raw(mut self, key: &str, value: impl Display) -> Self {
        let separator = if self.0.is_empty() { '{' } else { ',' };
        // A string takes everything.
        let _ = write!(self.0, "{separator}{}:{value}", Value::from(key));
        self
    }
}

impl Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "{" } else { &self.0 })?;
        f.write_str("}")
    }
}

/// A string with lone surrogates, which only an escape can spell.
fn escaped(name: &ResourceName) -> String {
    let mut escaped = String::from("\"");
    for unit in char::decode_utf16(name.utf16()) {
        match unit {
            Ok(char @ ('"' | '\\')) => escaped.extend(['\\', char]),
            Ok(char) if !char.is_control() => escaped.push(char),
            Ok(control) => {
                let _ = write!(escaped, "\\u{:04x}", u32::from(control));
            }
            Err(lone) => {
                let _ = write!(escaped, "\\u{:04x}", lone.unpaired_surrogate());
            }
        }
    }
    escaped.push('"');
    escaped
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
        assert_eq!(text, "{\"name\":\"a\\ud800\\\"\\u000a😀\"}");
    }
}
