//! The members of an etcd, of which one is spoken to at a time.
//!
//! Not all of them in turn: one that hangs would then delay every second or third call, for as long
//! as its connection looks good. Whoever gets no answer says so, and all go on with another member.

use std::{sync::Arc, time::Duration};

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

/// See the [module](self). The clones are the same.
#[derive(Clone)]
pub(crate) struct Members {
    options: Arc<EtcdOptions>,
    current: Arc<watch::Sender<Member>>,
}

/// The member that is spoken to.
#[derive(Clone)]
pub(crate) struct Member {
    pub(crate) client: Client,
    /// With what it connects.
    credentials: Credentials,
    /// Which of the endpoints.
    nth: usize,
    /// How often there was another before it.
    pub(crate) term: u64,
    /// Another is being looked for.
    is_avoided: bool,
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
                match ask(&options, nth).await {
                    Ok(asked) => return Ok((asked, nth)),
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
            Ok(Ok(((client, credentials), nth))) => {
                let first = Member { client, credentials, nth, term: 0, is_avoided: false };
                let current = Arc::new(watch::Sender::new(first));
                return Ok(Self { options: Arc::new(options), current });
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

    /// The one to speak to; if another is being looked for, that, but it is not waited for longer
    /// than this.
    pub(crate) async fn best(&self, patience: Duration) -> Member {
        let current = self.current();
        // Where there is but one, the old connection is as good as none.
        if current.is_avoided && self.options.endpoints.len() > 1 {
            let _ = timeout(patience, self.changed(current.term)).await;
            return self.current();
        }
        current
    }

    /// Ready when there is another than in this term.
    pub(crate) async fn changed(&self, term: u64) {
        // The sender is here, so that this is no error.
        let _ = self.current.subscribe().wait_for(|current| current.term != term).await;
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

    /// The one of this term has not answered. Looks for another that does.
    pub(crate) fn avoid(&self, term: u64) {
        let begins = self.current.send_if_modified(|current| {
            // Of one there is at least another connection.
            let begins = current.term == term && !current.is_avoided;
            current.is_avoided |= begins;
            begins
        });
        if begins {
            let endpoint = &*self.options.endpoints[self.current().nth];
            tracing::warn!(target: LOGS, endpoint, "etcd does not answer; another member is looked for");
            tokio::spawn(self.clone().find(term));
        }
    }

    async fn find(self, term: u64) {
        let (count, avoided) = (self.options.endpoints.len(), self.current().nth);
        let began = Instant::now();
        // It may be the best of them again by then, so it is tried too, but last.
        for nth in (0..count).cycle().skip(avoided + 1) {
            let endpoint = &*self.options.endpoints[nth];
            match ask(&self.options, nth).await {
                Ok((client, credentials)) => {
                    tracing::info!(target: LOGS, endpoint, after = ?began.elapsed(), "etcd answers again");
                    let found =
                        Member { client, credentials, nth, term: term + 1, is_avoided: false };
                    self.current.send_replace(found);
                    return;
                }
                Err(failure) => tracing::debug!(target: LOGS, endpoint, ?failure, "no answer"),
            }
            sleep(PAUSE).await;
        }
    }
}

/// Connects to one of them. Only an answer tells that there is somebody.
async fn ask(options: &EtcdOptions, nth: usize) -> Result<(Client, Credentials), Failure> {
    let credentials = options.credentials_now().map_err(Failure::Unknown)?;
    let asked = async {
        let with = options.client(&credentials);
        let mut client = Client::connect([&options.endpoints[nth]], Some(with)).await?;
        let prefix = BucketKeys::new(&options.namespace, "").all();
        let one = GetOptions::new().with_prefix().with_keys_only().with_limit(1);
        client.get(prefix, Some(one)).await?;
        Ok::<_, navlock_etcd_client::Error>(client)
    };
    // Where there is but one, it may take as long as it likes.
    let patience = if options.endpoints.len() > 1 { options.call() } else { options.timeout };
    match timeout(patience, asked).await {
        Ok(asked) => Ok((asked?, credentials)),
        Err(_) => Err(Failure::Unknown(format!("no answer within {patience:?}"))),
    }
}
