//! The clients of a broker, each with its agents, as rows of a table and as JSON.

use std::collections::{BTreeMap, BTreeSet};

use navlock::{
    AgentInfo, ClientId,
    look::{Agent, Client, Count, Overview},
};

use crate::{
    json::{IfKnown, Object},
    text::{printable, user_at_host},
    text_table::{self, GOOD, POOR},
    time::{elapsed, millis},
};

/// A client with its agents.
pub(crate) struct ClientRow<'a> {
    /// The client; `None` for agents on other machines, which are grouped by machine and process.
    client: Option<&'a Client>,
    agents: Vec<(ClientId, &'a Agent)>,
    count: Count,
}

/// The clients, in the order of their connections.
pub(crate) fn client_rows(overview: &Overview) -> Vec<ClientRow<'_>> {
    let counts = overview.counts();
    let mut of_clients: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for client in overview.clients.keys() {
        of_clients.insert((Some(*client), "", 0), Vec::new());
    }
    for (id, agent) in &overview.agents {
        let key = match agent.client {
            Some(client) => (Some(client), "", 0),
            None => (None, agent.info.host.as_str(), agent.info.pid),
        };
        of_clients.entry(key).or_default().push((*id, agent));
    }
    let shown = of_clients.into_iter().map(|((client, ..), mut agents)| {
        agents.sort_by_key(|(id, _)| *id);
        let mut count = Count::default();
        for of_agent in agents.iter().filter_map(|(id, _)| counts.get(id)) {
            count.held += of_agent.held;
            count.pending += of_agent.pending;
            count.owned += of_agent.owned;
        }
        let client = client.and_then(|client| overview.clients.get(&client));
        ClientRow { client, agents, count }
    });
    shown.collect()
}

impl ClientRow<'_> {
    fn info(&self) -> Option<&AgentInfo> {
        self.agents.first().map(|(_, agent)| &*agent.info)
    }

    fn pid(&self) -> u32 {
        let known = self.client.map(|client| client.pid).filter(|pid| *pid != 0);
        known.or(self.info().map(|info| info.pid)).unwrap_or(0)
    }

    pub(crate) fn state(&self) -> &'static str {
        self.client.map_or("elsewhere", |client| client.state.word())
    }

    pub(crate) fn buckets(&self) -> BTreeSet<&str> {
        self.agents.iter().map(|(_, agent)| &*agent.bucket).collect()
    }

    pub(crate) fn row(&self) -> text_table::Row {
        let age = self.client.map(|client| elapsed(client.since.elapsed()));
        let commands: BTreeSet<_> = self
            .agents
            .iter()
            .map(|(_, agent)| printable(&agent.info.command))
            .filter(|command| !command.is_empty())
            .collect();
        let buckets: Vec<_> = self.buckets().into_iter().map(printable).collect();
        let cells = [
            Some(self.pid().to_string()).filter(|pid| pid != "0"),
            Some(self.state().to_owned()),
            age,
            Some(self.agents.len().to_string()),
            Some(self.count.held.to_string()),
            Some(self.count.pending.to_string()),
            self.info().map(user_at_host),
            Some(buckets.join(", ")),
            Some(commands.into_iter().collect::<Vec<_>>().join(", ")),
        ];
        // Every cell has a word, so that scripts can split a line.
        let cells = cells
            .map(|cell| cell.filter(|cell| !cell.is_empty()).unwrap_or_else(|| "-".to_owned()));
        let style = if self.state() == "connected" { GOOD } else { POOR };
        text_table::Row { cells: cells.into(), style }
    }

    pub(crate) fn json(&self) -> Object {
        let Count { held, pending, owned, .. } = self.count;
        let agents: Vec<_> = self.agents.iter().map(|(id, agent)| agent_json(*id, agent)).collect();
        let buckets: Vec<_> = self.buckets().into_iter().map(str::to_owned).collect();
        Object::default()
            .number("pid", self.pid().into())
            .string("state", self.state())
            .if_known(self.client, |it, client| it.number("ageMs", millis(client.since.elapsed())))
            .number("held", held)
            .number("pending", pending)
            .number("owned", owned)
            .strings("buckets", &buckets)
            .objects("agents", &agents)
    }
}

fn agent_json(id: ClientId, agent: &Agent) -> Object {
    Object::default()
        .string("clientId", &id.to_string())
        .string("bucket", &agent.bucket)
        .agent(&agent.info)
}
