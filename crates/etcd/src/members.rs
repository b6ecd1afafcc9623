//! The members of an etcd cluster, of which one is used at a time.
//!
//! Calls do not go to all members in turn, because a member that hangs would then delay every second or
//! third call, as long as its connection looks good. Nor is a member left because a call is late: an etcd
//! that has too much to do would have even more to do. A late call has the member asked one question
//! ([`Members::doubt`]). If the answer to the question, or to a keepalive, is late as well, another
//! connection is looked for, to whichever member answers. The connection that there is stays, with all its
//! watches and calls, if it answers first.
//!
//! The endpoints from the options come first. If a member advertises one of these endpoints as its own,
//! the members are asked now and then for the endpoints of all members, so that members may come, go and
//! be replaced. If no member advertises one of them, as behind a proxy or a tunnel, the advertised
//! endpoints mean nothing here and are not used.

mod ask;
mod search;

use std::{
    collections::HashSet,
    fmt,
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use navlock_core::{Error, Unreachable, UnreachableKind, host::seconds};
use navlock_etcd_client::Client;
use navlock_machines::key_store::Link;
use tokio::{
    sync::watch,
    time::{self, Instant, sleep},
};

use self::ask::ask;
use crate::{
    LOGS, STORE, call_failure::Failure, credentials::Credentials, hint::hint, load::Load,
    options::EtcdOptions,
};

/// How often each member is tried for the first connection, if there are several.
const ROUNDS: usize = 3;

/// The pause between two tries.
const PAUSE: Duration = Duration::from_millis(50);

/// If another member is found within this time, nobody is told that a member did not answer.
const MOMENT: Duration = Duration::from_millis(500);

/// How often the list of members is read, in times to live. Each machine reads it, and it rarely changes.
const FOLLOWS: u32 = 6;

/// See the [module](self). Clones share the connection.
#[derive(Clone)]
pub struct Members {
    options: Arc<EtcdOptions>,
    current: Arc<watch::Sender<Member>>,
    learned: Arc<Mutex<Learned>>,
    /// The calls of the connection.
    pub(crate) load: Arc<Load>,
}

/// What the members have said of themselves.
#[derive(Default)]
struct Learned {
    /// The endpoints of the members, without those in the options.
    endpoints: Vec<String>,
    /// The id of the members' cluster.
    cluster: u64,
}

/// The member that is used.
#[derive(Clone)]
pub(crate) struct Member {
    pub(crate) client: Client,
    /// The credentials of the connection.
    credentials: Credentials,
    /// The member's endpoint.
    pub(crate) endpoint: String,
    /// How often the member was changed before.
    pub(crate) generation: u64,
    /// Whether the member is being asked if it is there.
    is_doubted: bool,
    /// A moment from which on the member has not answered. Another connection is being looked for.
    /// `None` if the member answers.
    avoided: Option<Instant>,
}

impl Member {
    fn new(client: Client, credentials: Credentials, endpoint: String, generation: u64) -> Self {
        Self { client, credentials, endpoint, generation, is_doubted: false, avoided: None }
    }
}

impl Link for Members {
    fn silent(&self) -> Option<Duration> {
        let avoided = self.current().avoided?;
        Some(avoided.elapsed()).filter(|silent| *silent >= MOMENT)
    }

    fn unreachable(&self) -> Error {
        let message = format!("no answer from {}", self.current().endpoint);
        Failure::Unknown(Unreachable::new(UnreachableKind::TimedOut, message)).error(STORE)
    }
}

impl fmt::Debug for Members {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Members").field("member", &self.current().endpoint).finish_non_exhaustive()
    }
}

impl Members {
    pub(crate) fn options(&self) -> &EtcdOptions {
        &self.options
    }

    /// How long one call may take before it is late.
    pub(crate) fn call_timeout(&self) -> Duration {
        self.options.keeper.times.call()
    }

    /// Connects to the first member that answers.
    ///
    /// # Errors
    ///
    /// [`Error::Unreachable`] if no member answers in time, [`Error::Refused`] if the options cannot
    /// be used.
    pub(crate) async fn connect(options: EtcdOptions) -> Result<Self, Error> {
        let count = options.endpoints.len();
        let rounds = if count > 1 { ROUNDS } else { 1 };
        let asked = async {
            let mut why = Unreachable::other("");
            for nth in (0..count).cycle().take(rounds * count) {
                let endpoint = &options.endpoints[nth];
                match ask(&options, endpoint, count > 1, None).await {
                    Ok(asked) => return Ok((asked, endpoint.clone())),
                    Err(Failure::Refused(error)) => return Err(Failure::Refused(error)),
                    Err(Failure::NoLease | Failure::NoRevision) => {
                        why = no_etcd();
                    }
                    Err(Failure::Unknown(unknown)) => why = unknown,
                }
                sleep(PAUSE).await;
            }
            Err(Failure::Unknown(why))
        };
        let why = match time::timeout(options.keeper.times.timeout, asked).await {
            Ok(Ok(((client, credentials), endpoint))) => {
                let first = Member::new(client, credentials, endpoint, 0);
                let current = Arc::new(watch::Sender::new(first));
                let (learned, load) = Default::default();
                let members = Self { options: Arc::new(options), current, learned, load };
                if members.options.follows_members {
                    tokio::spawn(members.follow());
                }
                return Ok(members);
            }
            Ok(Err(Failure::Refused(error))) => return Err(error),
            Ok(Err(Failure::Unknown(why))) => why,
            Ok(Err(Failure::NoLease | Failure::NoRevision)) => no_etcd(),
            Err(_) => {
                let message = format!("no answer within {}", seconds(options.keeper.times.timeout));
                Unreachable::new(UnreachableKind::TimedOut, message)
            }
        };
        let endpoints = options.endpoints.join(", ");
        let hint =
            hint(why.message(), &options).map_or_else(String::new, |hint| format!("; {hint}"));
        let message = format!("cannot reach etcd at {endpoints}: {why}{hint}");
        Err(why.with_message(message).into())
    }

    /// The member to use.
    pub(crate) fn current(&self) -> Member {
        self.current.borrow().clone()
    }

    /// The member to use. If the member does not answer, waits until one does, but no longer than
    /// `timeout`.
    pub(crate) async fn best(&self, timeout: Duration) -> Member {
        let current = self.current();
        // With a single endpoint there is no better member to wait for.
        if current.avoided.is_some() && self.endpoints().len() > 1 {
            let answers = |current: &Member| current.avoided.is_none();
            let _ = time::timeout(timeout, self.current.subscribe().wait_for(answers)).await;
            return self.current();
        }
        current
    }

    /// Waits until the member that is used is not that of this generation.
    pub(crate) async fn changed(&self, generation: u64) {
        // No error is possible: the sender is in `self`.
        let _ = self.current.subscribe().wait_for(|current| current.generation != generation).await;
    }

    /// Waits until the member of this generation answers, or another one is used.
    pub(crate) async fn answers(&self, generation: u64) {
        let is_so =
            |current: &Member| current.generation != generation || current.avoided.is_none();
        let _ = self.current.subscribe().wait_for(is_so).await;
    }

    /// Reads the credentials again, and connects to the member anew if the credentials have
    /// changed. Returns whether they have changed.
    pub(crate) fn renew(&self) -> bool {
        // After an error, the credentials are read again at the next failure.
        let Ok(now) = self.options.credentials_now() else { return false };
        let mut is_new = false;
        self.current.send_if_modified(|current| {
            is_new = current.credentials != now
                && current.client.renew(&self.options.client(&now)).is_ok();
            if is_new {
                current.credentials = now;
            }
            // The member is the same, so nobody has to change to another one.
            false
        });
        is_new
    }

    /// All endpoints that are known. The endpoints of the options come first.
    fn endpoints(&self) -> Vec<String> {
        let learned = self.learned();
        self.options.endpoints.iter().chain(&learned.endpoints).cloned().collect()
    }

    fn learned(&self) -> std::sync::MutexGuard<'_, Learned> {
        // A poisoned mutex may be used: nothing panics while it is locked, so what was learned is
        // never half changed.
        self.learned.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the list of members now and then, and when the member changes, as long as somebody uses
    /// the members.
    fn follow(&self) -> impl Future<Output = ()> + Send + use<> {
        let (options, mut changes) = (Arc::clone(&self.options), self.current.subscribe());
        let pause = FOLLOWS * options.keeper.times.time_to_live;
        let (current, learned) = (Arc::downgrade(&self.current), Arc::downgrade(&self.learned));
        let load = Arc::clone(&self.load);
        async move {
            loop {
                let all = (Weak::upgrade(&current), Weak::upgrade(&learned));
                let (Some(current), Some(learned)) = all else { return };
                let options = Arc::clone(&options);
                let members = Self { options, current, learned, load: Arc::clone(&load) };
                members.learn().await;
                drop(members);
                let _ = time::timeout(pause, changes.changed()).await;
            }
        }
    }

    async fn learn(&self) {
        let Member { mut client, endpoint, generation, .. } = self.current();
        let said = match time::timeout(self.options.keeper.times.call(), client.member_list()).await
        {
            Ok(Ok(said)) => said,
            // The user may lack the permission.
            Ok(Err(_)) => return,
            Err(_) => return self.doubt(generation),
        };
        let cluster = said.header.unwrap_or_default().cluster_id;
        let members = said.members.iter().filter(|member| !member.is_learner);
        let said = members.flat_map(|member| member.client_urls.iter().map(String::as_str));
        let Some(endpoints) = others(&self.options.endpoints, &endpoint, said) else { return };
        let mut learned = self.learned();
        if learned.endpoints != endpoints {
            tracing::info!(target: LOGS, ?endpoints, "further members of etcd are known");
        }
        *learned = Learned { endpoints, cluster };
    }
}

/// The advertised endpoints that are not in the options and can be used here. `None` if the endpoint that
/// was asked is not among the advertised ones.
fn others<'a>(
    given: &[String],
    asked: &str,
    said: impl Iterator<Item = &'a str>,
) -> Option<Vec<String>> {
    let said: Vec<&str> = said.collect();
    if !said.iter().any(|url| place(url) == place(asked)) {
        return None;
    }
    let mut known: HashSet<_> = given.iter().map(|given| place(given)).collect();
    let (is_secure, _) = place(asked);
    let mut of_use: Vec<_> = said
        .into_iter()
        // An advertised `localhost` is of use only on the member's own machine.
        .filter(|url| place(url).0 == is_secure && (is_here(asked) || !is_here(url)))
        .filter(|url| known.insert(place(url)))
        .map(str::to_owned)
        .collect();
    of_use.sort_unstable();
    Some(of_use)
}

fn no_etcd() -> Unreachable {
    Unreachable::new(UnreachableKind::Protocol, "it is not etcd")
}

/// Whether an endpoint uses TLS, and its address.
fn place(endpoint: &str) -> (bool, String) {
    let secure = endpoint.strip_prefix("https://");
    let rest = secure.or(endpoint.strip_prefix("http://")).unwrap_or(endpoint);
    (secure.is_some(), rest.trim_end_matches('/').to_ascii_lowercase())
}

/// Whether an endpoint is on the local machine.
fn is_here(endpoint: &str) -> bool {
    let (_, place) = place(endpoint);
    ["127.", "localhost:", "[::1]:", "0.0.0.0:"].iter().any(|here| place.starts_with(here))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(given: &[&str], asked: &str, said: &[&str]) -> Option<Vec<String>> {
        let given: Vec<_> = given.iter().map(|&given| given.to_owned()).collect();
        others(&given, asked, said.iter().copied())
    }

    #[test]
    fn members_are_followed_where_what_they_say_of_themselves_means_something() {
        let said = ["http://10.0.0.1:2379", "http://10.0.0.2:2379/", "http://10.0.0.3:2379"];
        let others = ["http://10.0.0.2:2379/", "http://10.0.0.3:2379"].map(str::to_owned).to_vec();
        assert_eq!(of(&["10.0.0.1:2379"], "10.0.0.1:2379", &said), Some(others));
        // By a tunnel, and by a member that was learned when the first had gone.
        assert_eq!(of(&["127.0.0.1:7"], "127.0.0.1:7", &said), None);
        let asked = of(&["10.0.0.9:2379"], "http://10.0.0.2:2379", &said);
        assert_eq!(asked.map(|others| others.len()), Some(3));
    }

    #[test]
    fn an_address_on_the_member_itself_or_with_other_security_is_not_used() {
        let said = ["https://a:1", "https://localhost:1", "https://127.0.0.1:1", "http://b:1"];
        assert_eq!(of(&["https://A:1/"], "https://A:1/", &said), Some(vec![]));
        let here = ["http://127.0.0.1:1", "http://127.0.0.1:2"];
        assert_eq!(of(&["127.0.0.1:1"], "127.0.0.1:1", &here), Some(vec![here[1].to_owned()]));
    }
}
