//! The JSON of `navlock query --json`: one object for each entry, or with `--tree` one for each holder that
//! holds others up.

use navlock::{
    Inspected,
    look::{Row, Why},
};

use super::{
    entry::Entry,
    tree::{Jam, longest_wait},
};
use crate::{json::Object, remedy::Remedy, time::millis};

impl Entry<'_> {
    pub(super) fn json(&self) -> Object {
        let Inspected { lock, agent, age, fencing_token, .. } = self.inspected;
        let object = Object::default().string("state", self.state);
        let object =
            self.bucket.into_iter().fold(object, |object, bucket| object.string("bucket", bucket));
        let mut object = object
            .name("name", &lock.name)
            .string("mode", lock.mode.as_str())
            .string("clientId", &lock.client_id.to_string());
        if let Some(agent) = agent {
            object = object.agent(agent);
            if self.continues.is_some() {
                object = object.json("stopped", serde_json::json!([agent.pid]));
            }
        }
        if let Some(age) = age {
            object = object.number("ageMs", millis(*age));
        }
        if let Some(position) = self.position {
            object = object.number("position", position as u64);
        }
        if let Some(taken) = self.taken() {
            object = object.number("taken", taken);
        }
        if let Some(token) = fencing_token.filter(|_| self.taken().is_none()) {
            object = object.fencing_token(token);
        }
        object
    }
}

impl Jam<'_> {
    pub(super) fn json(&self) -> Object {
        let longest = longest_wait(self.root, self.now).unwrap_or_default();
        let mut object = Object::default()
            .number("blocks", self.root.blocks as u64)
            .number("longestWaitMs", millis(longest))
            .boolean("cycle", self.root.is_cycle);
        if let Some(deadlock) = self.deadlock {
            let is = if deadlock.is_certain { "certain" } else { "possible" };
            let gives_way = deadlock.gives_way();
            object = object.string("deadlock", is).string("givesWay", &gives_way.to_string());
        }
        let rows: Vec<_> = self.root.rows.iter().map(|row| self.row_json(row)).collect();
        let remedies: Vec<_> = self.remedies.iter().map(Remedy::json).collect();
        object.objects("rows", &rows).objects("remedies", &remedies)
    }

    fn row_json(&self, row: &Row<'_>) -> Object {
        let Row { depth, why, name, entry, is_held, .. } = row;
        let id = entry.id.client_id;
        let mut object = Object::default().number("depth", *depth as u64);
        if let Some(why) = why {
            let block = match why {
                Why::Held => "hard",
                Why::Ahead => "soft",
                Why::Inside => "inside",
                Why::InsideAgent => "inside-agent",
                _ => "same-agent",
            };
            object = object.string("block", block);
        }
        object = object
            .string("state", if *is_held { "held" } else { "pending" })
            .string("bucket", &name.bucket)
            .name("name", &name.name)
            .string("mode", entry.mode.as_str())
            .string("clientId", &id.to_string())
            .string("serial", &entry.id.serial.to_string())
            .number("ageMs", millis(entry.age(self.now)));
        object = self.surroundings.describe(entry, object);
        let stopped = self.surroundings.stopped(id);
        if !stopped.is_empty() {
            let stopped = stopped.into_iter().map(serde_json::Value::from).collect();
            object = object.json("stopped", serde_json::Value::Array(stopped));
        }
        if let Some(silence) = self.surroundings.silence(id) {
            object = object
                .number("silentMs", millis(self.now.saturating_duration_since(silence.since)))
                .number("endsInMs", millis(silence.ends.saturating_duration_since(self.now)));
        }
        object
    }
}
