//! Remedies for a jam: the state of the agents that hold others up, and command lines to paste.

use std::{
    collections::BTreeSet,
    path::{self, Path},
    time::Instant,
};

use navlock::{
    AgentInfo, ClientId, Place, ResourceName,
    host::process,
    look::{Agent, Client, ClientState, Deadlock, Entry, LockName, Overview, Silence},
};
use navlock_platform::{
    process::{Seen, seen},
    shell::{self, line_to_continue, line_to_end},
    user::{ROOT, ours},
};

use crate::{
    json::{IfKnown, Object},
    text::{clipped, meta, printable, user_at_host},
    time::elapsed,
};

/// No command line to paste contains a name that is longer than this.
const LONGEST: usize = 200;

/// The longest text of an agent in a sentence.
const WIDEST: usize = 60;

/// How many remedies of one deadlock are offered at most. One of them is enough.
const MOST_ENDS: usize = 20;

/// Something that can be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Remedy {
    /// The kind of remedy, in one word.
    pub(crate) kind: &'static str,
    /// What the line does.
    pub(crate) does: String,
    /// The line to paste.
    pub(crate) line: String,
    /// The machine on which to paste the line, if it is not this one.
    pub(crate) host: Option<String>,
}

/// The machine and the program of the user who looks. They decide what can be done from here.
#[derive(Clone, Debug)]
pub(crate) struct Here {
    place: Place,
    /// The beginning of a command line that reaches the same broker, if that can be written down.
    navlock: Option<String>,
    host: String,
    /// The PID namespace in which this process sees others, if the system has PID namespaces.
    namespace: Option<u64>,
    process: fn(u32) -> Option<Seen>,
    /// The user who looks.
    user: String,
    /// Whether this user can end processes of all users, and may take locks of all.
    is_root: bool,
}

/// Holders and waiters, as they are seen from here.
pub(crate) struct Surroundings<'a> {
    overview: &'a Overview,
    here: &'a Here,
    /// Whether the broker and this process see the same ids for the broker's clients.
    counts_as_we_do: bool,
}

impl Remedy {
    /// The remedy for programs.
    pub(crate) fn json(&self) -> Object {
        Object::default()
            .string("kind", self.kind)
            .string("does", &self.does)
            .string("line", &self.line)
            .if_known(self.host.as_ref(), |it, host| it.string("host", host))
    }
}

impl Here {
    /// For the broker of this place, and a reader in this terminal, where that broker may be the
    /// usual one.
    pub(crate) fn new(place: &Place) -> Self {
        // Where some buckets live elsewhere, the place of a line would depend on its bucket.
        let usual = Place::with_buckets()
            .is_ok_and(|(usual, buckets)| usual.socket() == place.socket() && buckets.is_empty());
        let anywhere = Self::anywhere(place);
        let navlock = if usual { Some("navlock".to_owned()) } else { anywhere.navlock };
        Self { navlock, ..anywhere }
    }

    /// For the broker of this place, and readers in other terminals, where another broker may be
    /// the usual one.
    pub(crate) fn anywhere(place: &Place) -> Self {
        let socket = path::absolute(place.socket()).ok();
        let socket = socket.as_deref().and_then(Path::to_str).and_then(quoted);
        let navlock = match socket {
            _ if place.is_of_system() => Some("navlock --system".to_owned()),
            socket => socket.map(|socket| format!("navlock --socket {socket}")),
        };
        let AgentInfo { host, user, .. } = navlock_broker::this_process();
        let (namespace, is_root) = (navlock_broker::pid_namespace(), ours() == ROOT);
        Self { place: place.clone(), navlock, host, namespace, process: seen, user, is_root }
    }

    /// A made-up machine, which is called `here`. `process` gives the state of its processes.
    #[cfg(test)]
    pub(crate) fn made_up(process: fn(u32) -> Option<Seen>) -> Self {
        let (navlock, host) = ("navlock".to_owned(), "here".to_owned());
        let (place, navlock) = (Place::at("/nowhere/sock"), Some(navlock));
        let user = "ada".to_owned();
        Self { place, navlock, host, namespace: Some(1), process, user, is_root: false }
    }

    /// Holders and waiters, with the PID namespace of the broker that has told of them, if it is
    /// known.
    pub(crate) fn see<'a>(
        &'a self,
        overview: &'a Overview,
        namespace: Option<u64>,
    ) -> Surroundings<'a> {
        Surroundings { overview, here: self, counts_as_we_do: self.counts_as(namespace) }
    }

    /// Whether process ids of this PID namespace mean the same processes here, as far as this is
    /// known.
    pub(crate) fn counts_as(&self, namespace: Option<u64>) -> bool {
        namespace.is_none() || self.namespace.is_none() || namespace == self.namespace
    }
}

impl<'a> Surroundings<'a> {
    fn agent(&self, id: ClientId) -> Option<&'a Agent> {
        self.overview.agents.get(&id)
    }

    fn client(&self, agent: &Agent) -> Option<&'a Client> {
        self.overview.clients.get(&agent.client?)
    }

    /// The machine that an agent is on, if it is not this one.
    fn elsewhere(&self, agent: &'a Agent) -> Option<&'a str> {
        (agent.client.is_none() && !self.is_said_here(agent)).then_some(&*agent.info.host)
    }

    /// Whether the agent says that it is on this machine. A connected agent that says something
    /// else is in a container, where processes have other ids.
    fn is_said_here(&self, agent: &Agent) -> bool {
        let host = agent.info.host.as_str();
        host.is_empty() || host == self.here.host
    }

    /// Whether the agent is another user's, whose locks and processes are none of this user's business.
    fn is_anothers(&self, agent: &Agent) -> bool {
        self.here.place.is_of_system() && agent.info.user != self.here.user
    }

    /// The agent in words for people: `make[4711]`, with user and host if the agent is on another
    /// machine, and with the user if that is another one.
    pub(crate) fn who(&self, id: ClientId) -> String {
        let Some(agent) = self.agent(id) else { return format!("client {id}") };
        let who = process(Some(&agent.info), id);
        match self.elsewhere(agent) {
            Some(_) => format!("{who} {}", clipped(&user_at_host(&agent.info), WIDEST)),
            None if self.is_anothers(agent) => {
                format!("{who} of {}", clipped(&printable(&agent.info.user), WIDEST))
            }
            None => who,
        }
    }

    /// What the lock is for, and what else its agent says of itself, in brackets after a space; empty
    /// if nothing is said.
    pub(crate) fn why(&self, entry: &Entry) -> String {
        match self.overview.info_of(entry).map(|info| purpose(&info)) {
            Some(why) if !why.is_empty() => format!(" ({})", clipped(&why, WIDEST)),
            _ => String::new(),
        }
    }

    /// What is known of the agent of this lock or request, for programs.
    pub(crate) fn describe(&self, entry: &Entry, object: Object) -> Object {
        object.if_known(self.overview.info_of(entry), |it, info| it.agent(&info))
    }

    /// The processes of this machine that hold the agent's locks or wait for them: the process that
    /// is connected, and its command.
    fn processes(&self, agent: &Agent) -> Vec<u32> {
        let connected = self.client(agent).map(|client| client.pid);
        let said = self.is_said_here(agent).then_some(agent.info.pid);
        let mut all: Vec<_> = connected.into_iter().chain(said).collect();
        all.retain(|pid| *pid != 0);
        all.dedup();
        all
    }

    /// The agent's processes that are stopped, so that nothing goes on until they are continued.
    pub(crate) fn stopped(&self, id: ClientId) -> Vec<u32> {
        let agent = self.agent(id).filter(|agent| self.elsewhere(agent).is_none());
        let agent = agent.filter(|agent| agent.client.is_none() || self.counts_as_we_do);
        let mut all = agent.map(|agent| self.processes(agent)).unwrap_or_default();
        all.retain(|pid| (self.here.process)(*pid).is_some_and(|process| process.is_stopped));
        all
    }

    /// The silence of the agent's machine, if that is another machine that should have been heard
    /// of and was not.
    pub(crate) fn silence(&self, id: ClientId) -> Option<Silence> {
        self.agent(id)?.silence
    }

    /// The silence in words for people: `not heard of for 7s, ends in 3s`.
    pub(crate) fn silent(&self, id: ClientId, now: Instant) -> Option<String> {
        let Silence { since, ends, .. } = self.silence(id)?;
        let silent = elapsed(now.saturating_duration_since(since));
        Some(format!("not heard of for {silent}, {}", ends_in(ends, now)))
    }

    /// The process whose end ends the agent's locks. This is the command, if the command is known
    /// to be a child of the process that is connected, because the id that an agent tells may be
    /// wrong.
    fn to_end(&self, agent: &Agent) -> Option<u32> {
        let said = Some(agent.info.pid).filter(|pid| *pid != 0);
        let Some(client) = self.client(agent) else { return said };
        if !self.counts_as_we_do {
            return None;
        }
        let is_believed = |said: &u32| self.is_said_here(agent) && self.is_command(*said, client);
        said.filter(is_believed).or(Some(client.pid).filter(|pid| *pid != 0))
    }

    /// Whether this id can belong to the command of the connected process.
    fn is_command(&self, said: u32, client: &Client) -> bool {
        let process = self.here.process;
        if process(std::process::id()).is_none() {
            // This cannot be checked here.
            return true;
        }
        // The broker does not know the id of a process in another PID namespace.
        client.pid != 0
            && (client.state == ClientState::Orphaned
                || process(said).is_some_and(|process| process.parent == client.pid))
    }

    /// What this user can do about this holder or waiter. The mildest remedy comes first.
    pub(crate) fn remedies(&self, name: &LockName, entry: &Entry, is_held: bool) -> Vec<Remedy> {
        let id = entry.id.client_id;
        let agent = self.agent(id);
        if !self.here.is_root && agent.is_some_and(|agent| self.is_anothers(agent)) {
            return Vec::new();
        }
        let host = agent.and_then(|agent| self.elsewhere(agent));
        let mut all = Vec::new();
        let mut add = |kind, does: String, line: String, host: Option<&str>| {
            all.push(Remedy { kind, does, line, host: host.map(str::to_owned) });
        };
        let stopped = self.stopped(id);
        if let Some(line) = line_to_continue(&stopped).filter(|_| !stopped.is_empty()) {
            add("continue", "has it go on".to_owned(), line, None);
        }
        let socket = self.here.place.holds().join(id.to_string());
        let navlock = self.here.navlock.as_deref();
        if let Some(navlock) = navlock.filter(|_| socket.exists()) {
            let line = format!("{navlock} release {id}");
            add("release", "releases the locks of this hold".to_owned(), line, None);
        } else if let Some(pid) = agent.and_then(|agent| self.to_end(agent)) {
            // A stopped process receives other signals only when it goes on.
            let line = line_to_end(pid, !stopped.is_empty());
            let does = host.map_or_else(
                || "ends it".to_owned(),
                |host| format!("ends it, on {}", clipped(&printable(host), WIDEST)),
            );
            add("end", does, line, host);
        }
        let bucket = match &*name.bucket {
            "default" => Some(String::new()),
            bucket => quoted(bucket).map(|bucket| format!(" --bucket {bucket}")),
        };
        if let (Some(bucket), Some(quoted)) = (bucket, quoted_name(&name.name)) {
            if let Some(host) = host {
                let host = clipped(&printable(host), WIDEST);
                let ends = match self.silence(id) {
                    Some(Silence { ends, .. }) => {
                        format!(
                            "{}, if {host} is not heard of again",
                            ends_in(ends, Instant::now())
                        )
                    }
                    None => "ends by itself when its lease has run out".to_owned(),
                };
                let does = format!("removes it at once, if {host} is gone: otherwise it {ends}");
                add("evict", does, format!("navlock evict{bucket} {quoted} {id}"), None);
            }
            if let Some(navlock) = navlock.filter(|_| is_held) {
                let line = format!("{navlock} run{bucket} --steal {quoted} {}", shell::NOTHING);
                let does = "takes the lock from all holders, for the next in the queue".to_owned();
                add("steal", does, line, None);
            }
        }
        all
    }

    /// The remedies that would break a deadlock. Each ends one of its members.
    pub(crate) fn remedies_of(&self, deadlock: &Deadlock) -> Vec<Remedy> {
        let mut seen = BTreeSet::new();
        let mut all = Vec::new();
        for member in deadlock.members.iter().filter(|member| !member.is_held) {
            if !seen.insert(member.entry.id.client_id) {
                continue;
            }
            let who = self.who(member.entry.id.client_id);
            let of_it = self.remedies(&member.name, &member.entry, false);
            // To continue a process does not end it, so it would still wait.
            let end = of_it.into_iter().find(|remedy| remedy.kind != "continue");
            // Two agents of one process end together.
            let end = end.filter(|end| all.iter().all(|known: &Remedy| known.line != end.line));
            all.extend(end.map(|remedy| {
                let does = remedy.does.replacen(" it", &format!(" {who}"), 1);
                Remedy { does, ..remedy }
            }));
            if all.len() == MOST_ENDS {
                break;
            }
        }
        all
    }
}

/// The purpose of an agent's locks, and what else the agent says.
pub(crate) fn purpose(agent: &AgentInfo) -> String {
    let words = [printable(&agent.why), meta(agent)];
    words.into_iter().filter(|words| !words.is_empty()).collect::<Vec<_>>().join(", ")
}

/// The line that lets the agent's process go on, if that is a process of this machine and is stopped.
pub(crate) fn line_if_stopped(agent: &AgentInfo) -> Option<String> {
    let is_stopped = seen(agent.pid)?.is_stopped;
    let is_here = || agent.host.is_empty() || agent.host == navlock_broker::this_process().host;
    line_to_continue(&[agent.pid]).filter(|_| is_stopped && is_here())
}

/// `ends in 3s`.
fn ends_in(ends: Instant, now: Instant) -> String {
    match elapsed(ends.saturating_duration_since(now)) {
        left if left == "0s" => "ends in a moment".to_owned(),
        left => format!("ends in {left}"),
    }
}

fn quoted_name(name: &ResourceName) -> Option<String> {
    // FAST: a name that is too long is not looked at.
    name.as_str().filter(|text| text.len() <= LONGEST).and_then(quoted)
}

/// A text as one word of a shell; `None` if it would be misread by people or is too long for them.
fn quoted(text: &str) -> Option<String> {
    if text.len() > LONGEST || text.starts_with('-') || printable(text) != text {
        return None;
    }
    shell::quoted(text)
}

#[cfg(test)]
#[cfg(unix)]
mod tests;
