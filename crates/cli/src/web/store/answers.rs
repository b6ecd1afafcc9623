//! The answers to a page: the whole state, or what has changed.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashSet},
};

use navlock_platform::shell::line_to_continue;

use super::{Broker, Part, Store};
use crate::{json::Object, web::render};

impl Store {
    /// The whole state.
    pub(in crate::web) fn state(&self) -> Object {
        let agents = self.agents.values().map(|agent| &agent.json);
        self.head()
            .json("clients", render::array(self.clients.values()))
            .json("agents", render::array(agents))
            .json("names", render::array(self.names.values().map(|name| &name.json)))
            .json("tree", &self.tree.json)
            .json("deadlocks", &self.deadlocks.json)
    }

    /// What has changed since this version; `None` if this is not known any more.
    pub(in crate::web) fn since(&self, version: u64) -> Option<Object> {
        if version == 0 || version > self.version || version < self.forgotten {
            return None;
        }
        let start = self.changes.partition_point(|(changed, _)| *changed <= version);
        let parts: HashSet<Part> = self.changes.range(start..).map(|(_, part)| *part).collect();
        let mut changed = BTreeMap::<_, Vec<_>>::new();
        for part in parts {
            let (key, gone, json, id) = match part {
                Part::Name(key) => {
                    let json = self.names.get(&key).map(|name| &name.json);
                    ("names", "namesGone", json, key.to_string())
                }
                Part::Agent(id) => {
                    let json = self.agents.get(&id).map(|agent| &agent.json);
                    ("agents", "agentsGone", json, format!("\"{id}\""))
                }
                Part::Client(number) => {
                    ("clients", "clientsGone", self.clients.get(&number), number.to_string())
                }
            };
            match json {
                Some(json) => changed.entry(key).or_default().push(Cow::Borrowed(json.as_str())),
                None => changed.entry(gone).or_default().push(Cow::Owned(id)),
            }
        }
        let mut object = changed
            .into_iter()
            .fold(self.head(), |object, (key, parts)| object.json(key, render::array(parts)));
        for (key, section) in [("tree", &self.tree), ("deadlocks", &self.deadlocks)] {
            if section.changed > version {
                object = object.json(key, &section.json);
            }
        }
        Some(object)
    }

    fn head(&self) -> Object {
        let object =
            Object::default().number("version", self.version).number("now", self.clock.now());
        let (broker, error) = match &self.broker {
            Broker::Unknown => ("unknown", None),
            Broker::Running => ("running", None),
            Broker::None => ("none", None),
            Broker::Stopped(pid) => {
                let goes_on = line_to_continue(&[*pid]);
                let goes_on =
                    goes_on.map_or_else(String::new, |line| format!(": '{line}' has it go on"));
                let error = format!(
                    "process {pid} is stopped, so that nobody is granted anything{goes_on}. What is shown \
                     is how it was."
                );
                ("stopped", Some(error))
            }
            Broker::Failed(error) => ("failed", Some(error.clone())),
        };
        let object = object.string("broker", broker).number("leftOut", self.left_out);
        error.iter().fold(object, |object, error| object.string("error", error))
    }
}
