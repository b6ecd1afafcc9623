//! The statement in each cluster about the list that all clusters are in.

use std::fmt;

/// How long the name of a cluster may be.
pub(super) const MAX_NAME: usize = 64;

/// The names of clusters, in their order, and which of them are retired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct List(pub(super) Vec<(String, bool)>);

/// What a cluster says of the list that it is in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ListStatement {
    /// Whether the cluster may be used with this list. If not, somebody is about to make all
    /// clusters use the list.
    pub(super) is_settled: bool,
    /// The name of this cluster in the list.
    pub(super) own: String,
    pub(super) list: List,
    /// What is added to the cluster's fencing tokens, so that they are larger than those that its
    /// names have had on other clusters.
    pub(super) base: u64,
}

/// Whether this can be the name of a cluster.
pub(super) fn is_name(name: &str) -> bool {
    let is_good = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    (1..=MAX_NAME).contains(&name.len()) && !name.starts_with('-') && name.chars().all(is_good)
}

impl List {
    /// The first cluster in this list that has names and is missing in the other list, even as a
    /// retired one.
    pub(super) fn missing_in(&self, other: &Self) -> Option<&str> {
        let is_in = |name: &String| other.0.iter().any(|(known, _)| known == name);
        let mut active = self.0.iter().filter(|(_, is_retired)| !is_retired);
        active.find(|(name, _)| !is_in(name)).map(|(name, _)| &**name)
    }

    fn parse(text: &str) -> Option<Self> {
        let one = |text: &str| {
            let (name, is_retired) =
                text.strip_prefix('-').map_or((text, false), |name| (name, true));
            is_name(name).then(|| (name.to_owned(), is_retired))
        };
        text.split(',').map(one).collect::<Option<_>>().map(Self)
    }
}

impl fmt::Display for List {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (nth, (name, is_retired)) in self.0.iter().enumerate() {
            let comma = if nth == 0 { "" } else { "," };
            let hyphen = if *is_retired { "-" } else { "" };
            write!(f, "{comma}{hyphen}{name}")?;
        }
        Ok(())
    }
}

impl ListStatement {
    /// `None` if navlock has not written this value.
    pub(super) fn parse(value: &[u8]) -> Option<Self> {
        let mut words = std::str::from_utf8(value).ok()?.split(' ');
        let is_settled = match words.next()? {
            "settled" => true,
            "changing" => false,
            _ => return None,
        };
        let (own, list) = (words.next()?.to_owned(), List::parse(words.next()?)?);
        let base = words.next()?.parse().ok()?;
        words.next().is_none().then_some(Self { is_settled, own, list, base })
    }
}

/// The value of the key, which can be read with `etcdctl`: `settled east east,west,-south 4711`.
impl fmt::Display for ListStatement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { is_settled, own, list, base } = self;
        write!(f, "{} {own} {list} {base}", if *is_settled { "settled" } else { "changing" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_of_a_list_is_read_as_it_was_written() {
        for text in ["settled a a 0", "changing a.1 a.1,-b_2,c-3 18446744073709551615"] {
            assert_eq!(ListStatement::parse(text.as_bytes()).unwrap().to_string(), text);
        }
        for wrong in ["", "settled a a", "settled a a 0 x", "done a a 0", "settled a a,, 0"] {
            assert_eq!(ListStatement::parse(wrong.as_bytes()), None, "{wrong}");
        }
        assert_eq!(ListStatement::parse(b"settled a a \xff"), None);
    }

    #[test]
    fn only_who_holds_names_has_to_be_named_again() {
        let list = |text| List::parse(text).unwrap();
        assert_eq!(list("a,b").missing_in(&list("a")), Some("b"));
        assert_eq!(list("a,b").missing_in(&list("a,-b")), None);
        assert_eq!(list("a,-b").missing_in(&list("a")), None);
    }
}
