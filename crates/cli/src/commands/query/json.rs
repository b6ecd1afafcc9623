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
use crate::{
    json::{IfKnown, Object},
    remedy::Remedy,
    time::millis,
};

impl Entry<'_> {
    pub(super) fn json(&self) -> Object {
        let Inspected { lock, agent, age, fencing_token, .. } = self.inspected;
        let stopped = agent.as_ref().filter(|_| self.continues.is_some());
        let token = fencing_token.filter(|_| self.taken().is_none());
        Object::default()
            .string("state", self.state)
            .if_known(self.bucket, |it, bucket| it.string("bucket", bucket))
            .name("name", &lock.name)
            .string("mode", lock.mode.as_str())
            .string("clientId", &lock.client_id.to_string())
            .if_known(agent.as_ref(), |it, agent| it.agent(agent))
            .if_known(stopped, |it, agent| it.json("stopped", list(&[agent.pid])))
            .if_known(*age, |it, age| it.number("ageMs", millis(age)))
            .if_known(self.position, |it, position| it.number("position", position as u64))
            .if_known(self.taken(), |it, taken| it.number("taken", taken))
            .if_known(token, Object::fencing_token)
    }
}

impl Jam<'_> {
    pub(super) fn json(&self) -> Object {
        let longest = longest_wait(self.root, self.now).unwrap_or_default();
        let rows: Vec<_> = self.root.rows.iter().map(|row| self.row_json(row)).collect();
        let remedies: Vec<_> = self.remedies.iter().map(Remedy::json).collect();
        Object::default()
            .number("blocks", self.root.blocks as u64)
            .number("longestWaitMs", millis(longest))
            .boolean("cycle", self.root.is_cycle)
            .if_known(self.deadlock, |it, deadlock| {
                let is = if deadlock.is_certain { "certain" } else { "possible" };
                it.string("deadlock", is).string("givesWay", &deadlock.gives_way().to_string())
            })
            .objects("rows", &rows)
            .objects("remedies", &remedies)
    }

    fn row_json(&self, row: &Row<'_>) -> Object {
        let Row { depth, why, name, entry, is_held, .. } = row;
        let id = entry.id.client_id;
        let block = why.map(|why| match why {
            Why::Held => "hard",
            Why::Ahead => "soft",
            Why::Inside => "inside",
            Why::InsideAgent => "inside-agent",
            _ => "same-agent",
        });
        let object = Object::default()
            .number("depth", *depth as u64)
            .if_known(block, |it, block| it.string("block", block))
            .string("state", if *is_held { "held" } else { "pending" })
            .string("bucket", &name.bucket)
            .name("name", &name.name)
            .string("mode", entry.mode.as_str())
            .string("clientId", &id.to_string())
            .string("serial", &entry.id.serial.to_string())
            .number("ageMs", millis(entry.age(self.now)));
        let stopped = Some(self.surroundings.stopped(id)).filter(|pids| !pids.is_empty());
        self.surroundings
            .describe(entry, object)
            .if_known(stopped, |it, pids| it.json("stopped", list(&pids)))
            .if_known(self.surroundings.silence(id), |it, silence| {
                it.number("silentMs", millis(self.now.saturating_duration_since(silence.since)))
                    .number("endsInMs", millis(silence.ends.saturating_duration_since(self.now)))
            })
    }
}

fn list(numbers: &[u32]) -> serde_json::Value {
    numbers.into()
}
