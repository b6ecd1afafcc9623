//! What is said to the functions in `schema.sql`, and what they answer: JSON, in which values are hexadecimal.

use navlock_core::Refusal;
use navlock_machines::{
    call_failure::Failure,
    data::{Answer, Check, KeyValue, Step, StepResult, Transaction},
};
use serde::Deserialize;
use serde_json::{Value, json};

/// A part of each answer: which store it comes from, and when.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(crate) struct Stamp {
    pub(crate) store: u64,
    /// It grows each time that the store has lost its memory.
    pub(crate) era: i64,
    pub(crate) revision: i64,
}

/// A key that was put, or deleted if it has no value.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "Row")]
pub(crate) struct Told {
    pub(crate) key: String,
    /// In hexadecimal.
    value: Option<String>,
    /// The revision that made it.
    made: i64,
    /// The revision that wrote or deleted it.
    pub(crate) written: i64,
    pub(crate) lease: i64,
}

/// A key as the functions tell it.
type Row = (String, Option<String>, Option<i64>, i64, Option<i64>);

impl From<Row> for Told {
    fn from((key, value, made, written, lease): Row) -> Self {
        Self {
            key,
            value,
            made: made.unwrap_or_default(),
            written,
            lease: lease.unwrap_or_default(),
        }
    }
}

/// Who has to be notified, and of which place.
pub(crate) type Concerned = Vec<(i64, String)>;

#[derive(Debug, Deserialize)]
pub(crate) struct Transacted {
    #[serde(flatten)]
    stamp: Stamp,
    /// Whether the checks hold of the transaction, and of those within it that were run.
    path: Vec<bool>,
    /// What was found by the steps that find something.
    results: Vec<Value>,
    news: Vec<News>,
}

/// A place, who watches it, the revision of the change before, and the key.
type News = (String, Option<Vec<i64>>, Option<i64>, Told);

/// What was changed in a place.
pub(crate) struct Change {
    pub(crate) place: String,
    /// The revision of the change before, if anybody watches the place.
    pub(crate) before: Option<i64>,
    pub(crate) keys: Vec<Told>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Listed {
    #[serde(flatten)]
    pub(crate) stamp: Stamp,
    pub(crate) keys: Vec<Told>,
    #[serde(default, rename = "left out")]
    pub(crate) left_out: u64,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Renewed {
    #[serde(flatten)]
    pub(crate) stamp: Stamp,
    pub(crate) recovers: bool,
    #[serde(rename = "is unsure")]
    pub(crate) is_unsure: bool,
    pub(crate) longest: u64,
    pub(crate) lease: Option<LeaseState>,
    #[serde(rename = "time to live")]
    pub(crate) time_to_live: Option<u64>,
    pub(crate) mailbox: Vec<String>,
    /// Leases of others: how often they were renewed, and their time to live.
    pub(crate) others: Vec<(i64, i64, u64)>,
}

/// Whether the keys under a lease are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LeaseState {
    Complete,
    /// They have to be put back.
    Incomplete,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Ended {
    pub(crate) ended: bool,
    pub(crate) others: Concerned,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Heard {
    #[serde(flatten)]
    pub(crate) stamp: Stamp,
    /// The first revision of which everything is known.
    pub(crate) kept: i64,
    pub(crate) news: Vec<(String, Vec<Told>)>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Hello {
    pub(crate) version: i64,
    pub(crate) format: String,
}

impl Told {
    /// The key, without a value if it was deleted.
    pub(crate) fn key_value(&self) -> Option<KeyValue> {
        Some(KeyValue {
            key: self.key.clone().into_bytes(),
            value: hex::decode(self.value.as_deref().unwrap_or_default()).ok()?,
            made: self.made,
            written: self.written,
            lease: self.lease,
        })
    }

    pub(crate) fn is_put(&self) -> bool {
        self.value.is_some()
    }

    /// As it is put back.
    pub(crate) fn json(&self) -> Value {
        json!([self.key, self.value, self.made, self.written, self.lease])
    }
}

/// A text as SQL has it, whatever `standard_conforming_strings` says.
pub(crate) fn quoted(text: &str) -> String {
    let text = text.replace('\'', "''");
    if text.contains('\\') {
        format!("E'{}'", text.replace('\\', r"\\"))
    } else {
        format!("'{text}'")
    }
}

/// A key as text. All keys of ours are plain.
///
/// # Errors
///
/// [`Failure::Refused`] if somebody else has made the key.
pub(crate) fn text(key: &[u8]) -> Result<&str, Failure> {
    let is_plain = |byte: &u8| byte.is_ascii_graphic() && !b"'\"\\".contains(byte);
    match std::str::from_utf8(key) {
        Ok(text) if key.iter().all(is_plain) => Ok(text),
        _ => Err(Failure::Refused(
            Refusal::new(format!("{} is no key of navlock", key.escape_ascii())).into(),
        )),
    }
}

/// An end of a range as text. The key that comes next after another one ends with a zero, which no text can have;
/// no key of ours is between that and this.
fn bound(key: &[u8]) -> Result<String, Failure> {
    Ok(match key.strip_suffix(&[0]) {
        Some(key) => format!("{} ", text(key)?),
        None => text(key)?.to_owned(),
    })
}

/// A transaction as the function `transact` takes it.
///
/// # Errors
///
/// [`Failure::Refused`] if there is a key that is none of ours.
pub(crate) fn transaction(of: &Transaction) -> Result<Value, Failure> {
    let when: Result<Vec<_>, _> = of.when.iter().map(check).collect();
    let steps = |steps: &[Step]| steps.iter().map(step).collect::<Result<Vec<_>, _>>();
    Ok(json!({ "when": when?, "then": steps(&of.then)?, "else": steps(&of.or_else)? }))
}

fn check(check: &Check) -> Result<Value, Failure> {
    Ok(match check {
        Check::Absent(key) => json!(["absent", text(key)?]),
        Check::Present(key) => json!(["present", text(key)?]),
        Check::MadeIn(key, revision) => json!(["made", text(key)?, revision]),
        Check::WrittenIn(key, revision) => json!(["written", text(key)?, revision]),
        Check::Empty(first, behind) => json!(["empty", bound(first)?, bound(behind)?]),
        Check::NoneAfter(first, behind, revision) => {
            json!(["none after", bound(first)?, bound(behind)?, revision])
        }
    })
}

fn step(step: &Step) -> Result<Value, Failure> {
    Ok(match step {
        Step::Put { key, value, lease } => json!(["put", text(key)?, hex::encode(value), lease]),
        Step::Get(key) => json!(["get", text(key)?]),
        Step::Count(first, behind) => json!(["count", bound(first)?, bound(behind)?]),
        Step::First(first, behind) => json!(["first", bound(first)?, bound(behind)?]),
        Step::Delete(key) => json!(["delete", text(key)?]),
        Step::DeleteRange(first, behind) => json!(["delete range", bound(first)?, bound(behind)?]),
        Step::Within(inner) => json!(["within", transaction(inner)?]),
    })
}

impl Transacted {
    /// The answer to this transaction.
    ///
    /// # Errors
    ///
    /// [`Failure::Unknown`] if it answers something else.
    pub(crate) fn answer(&self, of: &Transaction) -> Result<Answer, Failure> {
        let mut rest = (self.path.iter(), self.results.iter());
        let strange = || Failure::unknown("an answer to another transaction");
        answer(of, self.stamp, &mut rest).ok_or_else(strange)
    }

    /// What was changed, by place, and which listeners have to be notified.
    pub(crate) fn changes(self) -> (Vec<Change>, Concerned) {
        let (mut changes, mut concerned) = (Vec::<Change>::new(), Concerned::new());
        for (place, listeners, before, told) in self.news {
            concerned.extend(listeners.into_iter().flatten().map(|who| (who, place.clone())));
            match changes.iter_mut().find(|change| change.place == place) {
                Some(change) => change.keys.push(told),
                None => changes.push(Change { place, before, keys: vec![told] }),
            }
        }
        (changes, concerned)
    }
}

fn answer<'a>(
    of: &Transaction,
    stamp: Stamp,
    rest: &mut (impl Iterator<Item = &'a bool>, impl Iterator<Item = &'a Value>),
) -> Option<Answer> {
    let succeeded = *rest.0.next()?;
    let steps = if succeeded { &of.then } else { &of.or_else };
    let mut results = Vec::with_capacity(steps.len());
    for step in steps {
        results.push(match step {
            Step::Put { .. } | Step::Delete(_) => StepResult::Done,
            Step::Get(_) => StepResult::Got(rest.1.next()?.as_i64()),
            Step::Count(..) => StepResult::Counted(rest.1.next()?.as_i64()?),
            Step::First(..) => match rest.1.next()? {
                Value::Null => StepResult::First(None),
                found => {
                    StepResult::First(Some(Box::new(Told::deserialize(found).ok()?.key_value()?)))
                }
            },
            Step::DeleteRange(..) => {
                let keys = rest.1.next()?.as_array()?.iter();
                let bytes = |key: &Value| Some(key.as_str()?.as_bytes().to_vec());
                let mut keys = keys.map(bytes).collect::<Option<Vec<_>>>()?;
                keys.sort_unstable();
                StepResult::Deleted(keys)
            }
            Step::Within(inner) => StepResult::Within(answer(inner, stamp, rest)?),
        });
    }
    Some(Answer { revision: stamp.revision, cluster: stamp.store, succeeded, results })
}
