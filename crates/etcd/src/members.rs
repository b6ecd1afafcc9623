//! The members of an etcd, of which one is spoken to at a time.
//!
//! Not all of them in turn: one that hangs would then delay every second or third call, for as long
//! as its connection looks good. Whoever gets no answer says so, and all go on with another member.
//!
//! The endpoints that were given are where it begins. Where one of them is what a member says of itself,
//! the others are asked for too, now and then, so that members may come, go and be replaced. Where none
//! is, as with a proxy or a tunnel, what members say of themselves means nothing here, and is left alone.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use navlock_core::Error;
use navlock_etcd_client::{Client, GetOptions};
use tokio::{
    sync::watch,
    time::{Instant, sleep, timeout},
};

use crate::{
    LOGS,
    failure::Failure,
    hint::hint,
    keys::BucketKeys,
    options::{Credentials, EtcdOptions},
};

/// How often each member is tried at the beginning, if there are several.
const ROUNDS: usize = 3;

/// How long between two tries.
const PAUSE: Duration = Duration::from_millis(50);

/// What takes no longer than this to find another member is nothing that anybody is told of.
const MOMENT: Duration = Duration::from_millis(500);

/// How often the members are asked for, in times to live: each machine does so, and seldom is there another.
const FOLLOWS: u32 = 6;

/// See the [module](self). The clones are the same.
#[derive(Clone)]
pub(crate) struct Members {
    options: Arc<EtcdOptions>,
    current: Arc<watch::Sender<Member>>,
    learned: Arc<Mutex<Learned>>,
}

/// What was said of the members.
#[derive(Default)]
struct Learned {
    /// Their endpoints, as far as they were not given.
    endpoints: Vec<String>,
    /// Whose members they are.
    cluster: u64,
}

/// The member that is spoken to.
#[derive(Clone)]
pub(crate) struct Member {
    pub(crate) client: Client,
    /// With what it connects.
    credentials: Credentials,
    /// Where it is.
    pub(crate) endpoint: String,
    /// How often there was another before it.
    pub(crate) generation: u64,
    /// It has not answered, since then at the latest, and another is being looked for.
    avoided: Option<Instant>,
}

impl Members {
    /// Connects to the first of them that answers.
    ///
    /// # Errors
    ///
    /// [`Error::Unreachable`] if none does in time, [`Error::Refused`] if the options cannot be used.
    pub(crate) async fn connect(options: EtcdOptions) -> Result<Self, Error> {
        let count = options.endpoints.len();
        let rounds = if count > 1 { ROUNDS } else { 1 };
        let asked = async {
            let mut why = String::new();
            for nth in (0..count).cycle().take(rounds * count) {
                let endpoint = &options.endpoints[nth];
                match ask(&options, endpoint, count > 1, None).await {
                    Ok(asked) => return Ok((asked, endpoint.clone())),
                    Err(Failure::Refused(error)) => return Err(Failure::Refused(error)),
                    Err(Failure::NoLease | Failure::NoRevision) => {
                        "it is no etcd".clone_into(&mut why);
                    }
                    Err(Failure::Unknown(unknown)) => why = unknown,
                }
                sleep(PAUSE).await;
            }
            Err(Failure::Unknown(why))
        };
        let why = match timeout(options.timeout, asked).await {
            Ok(Ok(((client, credentials), endpoint))) => {
                let first = Member { client, credentials, endpoint, generation: 0, avoided: None };
                let current = Arc::new(watch::Sender::new(first));
                let members = Self { options: Arc::new(options), current, learned: Arc::default() };
                if members.options.follows_members {
                    tokio::spawn(members.follow());
                }
                return Ok(members);
            }
            Ok(Err(Failure::Refused(error))) => return Err(error),
            Ok(Err(Failure::Unknown(why))) => why,
            Ok(Err(Failure::NoLease | Failure::NoRevision)) => "it is no etcd".to_owned(),
            Err(_) => format!("no answer within {:?}", options.timeout),
        };
        let endpoints = options.endpoints.join(", ");
        let hint = hint(&why, &options).map_or_else(String::new, |hint| format!("; {hint}"));
        Err(Error::Unreachable(format!("cannot reach etcd at {endpoints}: {why}{hint}")))
    }

    /// The one to speak to.
    pub(crate) fn current(&self) -> Member {
        self.current.borrow().clone()
    }

    /// Where that is, and whether it answers as far as is known.
    pub(crate) fn spoken_to(&self) -> (String, bool) {
        let Member { endpoint, avoided, .. } = self.current();
        (endpoint, avoided.is_none())
    }

    /// For how long no member has answered, at least, if that is more than a moment.
    pub(crate) fn silent(&self) -> Option<Duration> {
        let avoided = self.current().avoided?;
        Some(avoided.elapsed()).filter(|silent| *silent >= MOMENT)
    }

    /// What is said of that.
    pub(crate) fn unreachable(&self) -> Error {
        Failure::Unknown(format!("no answer from {}", self.current().endpoint)).error()
    }

    /// The one to speak to; if another is being looked for, that, but it is not waited for longer
    /// than this.
    pub(crate) async fn best(&self, patience: Duration) -> Member {
        let current = self.current();
        // Where there is but one, the old connection is as good as none.
        if current.avoided.is_some() && self.endpoints().len() > 1 {
            let _ = timeout(patience, self.changed(current.generation)).await;
            return self.current();
        }
        current
    }

    /// Ready when there is another than in this generation.
    pub(crate) async fn changed(&self, generation: u64) {
        // The sender is here, so that this is no error.
        let _ = self.current.subscribe().wait_for(|current| current.generation != generation).await;
    }

    /// Has the member be connected to with what credentials are now, if they are others than before.
    /// Whether they are.
    pub(crate) fn renew(&self) -> bool {
        // Else it is seen at the next failure.
        let Ok(now) = self.options.credentials_now() else { return false };
        let mut is_new = false;
        self.current.send_if_modified(|current| {
            is_new = current.credentials != now
                && current.client.renew(&self.options.client(&now)).is_ok();
            if is_new {
                current.credentials = now;
            }
            // It is the same member.
            false
        });
        is_new
    }

    /// The one of this generation has not answered. Looks for another that does.
    pub(crate) fn avoid(&self, generation: u64) {
        let begins = self.current.send_if_modified(|current| {
            // Of one there is at least another connection.
            let begins = current.generation == generation && current.avoided.is_none();
            if begins {
                current.avoided = Some(Instant::now());
            }
            begins
        });
        if begins {
            let endpoint = &*self.current().endpoint;
            tracing::warn!(target: LOGS, endpoint, "etcd does not answer; another member is looked for");
            tokio::spawn(self.clone().find(generation));
        }
    }

    async fn find(self, generation: u64) {
        let (avoided, began) = (self.current().endpoint, Instant::now());
        loop {
            let (all, cluster) = (self.endpoints(), self.learned().cluster);
            let (count, given) = (all.len(), self.options.endpoints.len());
            let at = all.iter().position(|endpoint| *endpoint == avoided);
            // It may be the best of them again by then, so it is tried too, but last.
            let from = at.map_or(0, |at| at + 1);
            for (nth, endpoint) in all.iter().enumerate().cycle().skip(from).take(count) {
                // Of an address that somebody else has told, more is asked.
                let cluster = (nth >= given).then_some(cluster);
                match ask(&self.options, endpoint, count > 1, cluster).await {
                    Ok((client, credentials)) => {
                        let after = began.elapsed();
                        tracing::info!(target: LOGS, endpoint, ?after, "etcd answers again");
                        let (endpoint, generation) = (endpoint.clone(), generation + 1);
                        let found =
                            Member { client, credentials, endpoint, generation, avoided: None };
                        self.current.send_replace(found);
                        return;
                    }
                    Err(failure) => {
                        tracing::debug!(target: LOGS, endpoint, ?failure, "no answer");
                    }
                }
                sleep(PAUSE).await;
            }
        }
    }

    /// All endpoints that are known, those first that were given.
    fn endpoints(&self) -> Vec<String> {
        let learned = self.learned();
        self.options.endpoints.iter().chain(&learned.endpoints).cloned().collect()
    }

    fn learned(&self) -> std::sync::MutexGuard<'_, Learned> {
        // Whole between any two statements.
        self.learned.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks for the members for as long as somebody uses this: now and then, and when another is spoken to.
    fn follow(&self) -> impl Future<Output = ()> + Send + use<> {
        let (options, mut changes) = (Arc::clone(&self.options), self.current.subscribe());
        let (current, learned) = (Arc::downgrade(&self.current), Arc::downgrade(&self.learned));
        async move {
            loop {
                let all = (Weak::upgrade(&current), Weak::upgrade(&learned));
                let (Some(current), Some(learned)) = all else { return };
                let members = Self { options: Arc::clone(&options), current, learned };
                members.learn().await;
                drop(members);
                let _ = timeout(FOLLOWS * options.time_to_live, changes.changed()).await;
            }
        }
    }

    async fn learn(&self) {
        let Member { mut client, endpoint, generation, .. } = self.current();
        let said = match timeout(self.options.call(), client.member_list()).await {
            Ok(Ok(said)) => said,
            // It may not be allowed to us.
            Ok(Err(_)) => return,
            Err(_) => return self.avoid(generation),
        };
        let cluster = said.header().map_or(0, navlock_etcd_client::ResponseHeader::cluster_id);
        let members = said.members().iter().filter(|member| !member.is_learner());
        let said = members.flat_map(|member| member.client_urls().iter().map(String::as_str));
        let Some(endpoints) = others(&self.options.endpoints, &endpoint, said) else { return };
        let mut learned = self.learned();
        if learned.endpoints != endpoints {
            tracing::info!(target: LOGS, ?endpoints, "further members of etcd are known");
        }
        *learned = Learned { endpoints, cluster };
    }
}

/// Which of the endpoints that members say of themselves are none of those that were given, and of use here;
/// `None` if the one by which they were asked is not among them.
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
        // From another machine, what that calls itself is somebody else.
        .filter(|url| place(url).0 == is_secure && (is_here(asked) || !is_here(url)))
        .filter(|url| known.insert(place(url)))
        .map(str::to_owned)
        .collect();
    of_use.sort_unstable();
    Some(of_use)
}

/// Whether an endpoint has TLS, and where it is.
fn place(endpoint: &str) -> (bool, String) {
    let secure = endpoint.strip_prefix("https://");
    let rest = secure.or(endpoint.strip_prefix("http://")).unwrap_or(endpoint);
    (secure.is_some(), rest.trim_end_matches('/').to_ascii_lowercase())
}

/// Whether an endpoint is on the machine itself.
fn is_here(endpoint: &str) -> bool {
    let (_, place) = place(endpoint);
    ["127.", "localhost:", "[::1]:", "0.0.0.0:"].iter().any(|here| place.starts_with(here))
}

/// Connects to one of them. Only an answer tells that there is somebody; it has to be of this cluster, if
/// that is known.
async fn ask(
    options: &EtcdOptions,
    endpoint: &str,
    is_one_of_several: bool,
    cluster: Option<u64>,
) -> Result<(Client, Credentials), Failure> {
    let credentials = options.credentials_now().map_err(Failure::Unknown)?;
    let asked = async {
        let with = options.client(&credentials);
        let mut client = Client::connect([endpoint], Some(with)).await?;
        let prefix = BucketKeys::new(&options.namespace, "").all();
        let one = GetOptions::new().with_prefix().with_keys_only().with_limit(1);
        let answer = client.get(prefix, Some(one)).await?;
        let there = answer.header().map_or(0, navlock_etcd_client::ResponseHeader::cluster_id);
        Ok::<_, navlock_etcd_client::Error>((client, there))
    };
    // Where there is but one, it may take as long as it likes.
    let patience = if is_one_of_several { options.call() } else { options.timeout };
    match timeout(patience, asked).await {
        Ok(asked) => match asked? {
            (_, there) if cluster.is_some_and(|cluster| cluster != there) => {
                Err(Failure::Unknown("there is another etcd".to_owned()))
            }
            (client, _) => Ok((client, credentials)),
        },
        Err(_) => Err(Failure::Unknown(format!("no answer within {patience:?}"))),
    }
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
    fn what_is_on_the_member_itself_or_has_other_security_is_of_no_use() {
        let said = ["https://a:1", "https://localhost:1", "https://127.0.0.1:1", "http://b:1"];
        assert_eq!(of(&["https://A:1/"], "https://A:1/", &said), Some(vec![]));
        let here = ["http://127.0.0.1:1", "http://127.0.0.1:2"];
        assert_eq!(of(&["127.0.0.1:1"], "127.0.0.1:1", &here), Some(vec![here[1].to_owned()]));
    }
}
