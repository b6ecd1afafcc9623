//! The clients of a broker, each with its agents, as rows of a table and as JSON.

use std::collections::{BTreeMap, BTreeSet};

use navlock::{
    AgentInfo, ClientId,
    look::{Agent, Client, Count, Overview},
};

use crate::{
    json::{IfKnown, Object},
    text::{printable, user_at_host},
    text_table::{Column, Fit},
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

/// What is told of each client.
pub(crate) fn columns<'a>() -> [Column<ClientRow<'a>>; 9] {
    [
        Column("PID", Fit::Fixed, |one| Some(one.pid().to_string()).filter(|pid| pid != "0")),
        Column("STATE", Fit::Fixed, |one| Some(one.state().to_owned())),
        Column("AGE", Fit::Fixed, |one| Some(elapsed(one.client?.since.elapsed()))),
        Column("AGENTS", Fit::Fixed, |one| Some(one.agents.len().to_string())),
        Column("HELD", Fit::Fixed, |one| Some(one.count.held.to_string())),
        Column("WAITING", Fit::Fixed, |one| Some(one.count.pending.to_string())),
        Column("USER@HOST", Fit::Flexible(32), |one| one.info().map(user_at_host)),
        Column("BUCKETS", Fit::Flexible(32), |one| {
            Some(one.buckets().into_iter().map(printable).collect::<Vec<_>>().join(", "))
        }),
        Column("COMMAND", Fit::Last(usize::MAX), |one| Some(one.commands())),
    ]
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

    fn commands(&self) -> String {
        let commands = self.agents.iter().map(|(_, agent)| printable(&agent.info.command));
        let commands: BTreeSet<_> = commands.filter(|command| !command.is_empty()).collect();
        commands.into_iter().collect::<Vec<_>>().join(", ")
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
