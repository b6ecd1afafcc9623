//! The steps in words, for people.

use std::fmt::{self, Debug};

use super::{Flight, World};
use crate::keeper::{
    Call, Done,
    model::{memory::Memory, script::Step},
};

impl World {
    /// A step that can come next, with the call, answer or event that is on its way.
    pub(in crate::keeper::model) fn told(&self, step: Step) -> String {
        let what = match step {
            Step::Act(nth) => format!("{:?}", self.machines[nth].script[self.machines[nth].acted]),
            Step::Execute(nth, at)
            | Step::Answer(nth, at)
            | Step::Lose(nth, at)
            | Step::LoseAnswer(nth, at)
            | Step::Delay(nth, at) => match &self.machines[nth].flights[at] {
                Flight::Out(Call::Operate { of, .. }) | Flight::Back(Done::Operated(of, Ok(_))) => {
                    kind(&of.operation)
                }
                Flight::Out(call) => kind(&call),
                Flight::Back(Done::Operated(of, Err(error))) => {
                    format!("{}: {error:?}", kind(&of.operation))
                }
                Flight::Back(done) => kind(&done),
                Flight::Late(_) => "late".to_owned(),
            },
            _ => return format!("{step:?}"),
        };
        format!("{step:?}: {what}")
    }
}

/// The name of the variant.
fn kind(of: &impl Debug) -> String {
    format!("{of:?}").chars().take_while(char::is_ascii_alphanumeric).collect()
}

/// The keys in the bucket, and the revisions that have made them.
impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "revision {}:", self.revision)?;
        let all = self.keys.all();
        for kv in self.found.values() {
            let key = kv.key.strip_prefix(&*all).unwrap_or(&kv.key);
            write!(f, " {} ({})", key.escape_ascii(), kv.made)?;
        }
        Ok(())
    }
}
