//! A connection to PostgreSQL, made anew when it has failed.

use std::{
    future::poll_fn,
    hash::{BuildHasher as _, RandomState},
    ops::Deref,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use navlock_core::{Error, Unreachable, UnreachableKind};
use navlock_machines::{call_failure::Failure, key_store::Link};
use serde::de::DeserializeOwned;
use tokio::{
    sync::{Mutex as AsyncMutex, mpsc},
    task::JoinHandle,
    time::{Instant, timeout},
};
use tokio_postgres::{AsyncMessage, Client, SimpleQueryMessage, config::SslMode};

use crate::{
    failures::{self, NO_LEASE, RECOVERING, RECOVERS},
    servers::Servers,
};

/// How many times as long as a call may take a late answer is waited for.
const LATE: u32 = 2;

/// If there is another answer within this time, nobody is told that there was none.
const MOMENT: Duration = Duration::from_millis(500);

/// A connection. One call is made after the other, unless that is late: if a program is killed whose next call has been
/// sent before the last one was answered, PgBouncer gives the answer to whoever has the server's session next (seen with
/// 1.18).
pub(crate) struct Connection {
    servers: Servers,
    schema: String,
    client: AsyncMutex<Option<Arc<Session>>>,
    /// The call that is being made.
    turn: AsyncMutex<()>,
    /// What calls are marked with. Each has another number, in all programs.
    mark: AtomicU64,
    /// Whether a call may have been done whose answer was lost.
    pub(crate) has_lost_answer: AtomicBool,
    /// Since when there was no answer.
    silent: Mutex<Option<(Instant, String)>>,
}

impl Connection {
    pub(crate) fn new(servers: Servers, schema: String) -> Self {
        Self {
            servers,
            schema,
            client: AsyncMutex::default(),
            turn: AsyncMutex::default(),
            mark: AtomicU64::new(RandomState::new().hash_one(0)),
            has_lost_answer: AtomicBool::new(false),
            silent: Mutex::default(),
        }
    }

    /// Calls a function of our schema, which is given with its arguments as SQL. The call is late after `time`. The
    /// server ends it if it has waited so long for its turn, or takes several times as long, and then has done
    /// nothing.
    ///
    /// It is one message of several statements. So it is one transaction, which the server ends whatever
    /// becomes of us, also where a pooler gives each transaction another session.
    pub(crate) async fn call<T: DeserializeOwned>(
        &self,
        call: &str,
        time: Duration,
    ) -> Result<T, Failure> {
        let (turn, limit) = (time.as_millis(), (LATE * time).as_millis());
        let schema = &self.schema;
        let mark = self.mark.fetch_add(1, Ordering::Relaxed);
        let text = format!(
            "set transaction isolation level read committed, read write; set local lock_timeout = {turn}; \
             set local statement_timeout = {limit}; select \"{schema}\".{call}, '{mark:x}'"
        );
        let answer = self.ask(&text, Some(&format!("{mark:x}")), time).await?;
        if answer == NO_LEASE {
            return Err(Failure::NoLease);
        }
        if answer == RECOVERS {
            let why = Unreachable::new(UnreachableKind::Unavailable, RECOVERING);
            return Err(Failure::Unknown(why));
        }
        serde_json::from_str(&answer).map_err(|error| {
            let why = format!("an answer of another release: {error}");
            Failure::Refused(Unreachable::new(UnreachableKind::Protocol, why).into())
        })
    }

    /// Does this, and returns the first value of the answer.
    pub(crate) async fn query(&self, text: &str, time: Duration) -> Result<String, Failure> {
        self.ask(text, None, time).await
    }

    /// Does this, and returns the first value of the answer, whose second one is the mark. The answer is late after
    /// `time`, and waited for for longer: if the call was made again, it would be done twice, and a slow server would have
    /// twice as much to do.
    async fn ask(&self, text: &str, mark: Option<&str>, time: Duration) -> Result<String, Failure> {
        let Ok(turn) = timeout(time, self.turn.lock()).await else {
            // It was not sent.
            let late = Failure::timed_out(time);
            self.note(Some(late.clone()));
            return Err(late);
        };
        let mut used = None;
        let answered = async {
            let client = used.insert(self.client().await?);
            let rows = match client.simple_query(text).await {
                Ok(rows) => rows,
                Err(error) => {
                    // A pooler may have said that, or the error is another call's: this one may be done.
                    self.has_lost_answer.store(true, Ordering::Relaxed);
                    self.leave(client).await;
                    return Err(failures::of(error));
                }
            };
            let row = rows.into_iter().find_map(|row| match row {
                SimpleQueryMessage::Row(row) => Some(row),
                _ => None,
            });
            let value = |nth| row.as_ref().and_then(|row| row.try_get(nth).ok().flatten());
            if mark.is_some() && value(1) != mark {
                self.has_lost_answer.store(true, Ordering::Relaxed);
                self.leave(client).await;
                return Err(Failure::unknown(
                    "the answer to another call: a pooler has mixed them up",
                ));
            }
            Ok(value(0).map(str::to_owned))
        };
        let mut answered = Box::pin(answered);
        let in_time = timeout(time, &mut answered).await;
        // Others do not wait for one that is late.
        drop(turn);
        let answered = if let Ok(answered) = in_time {
            answered
        } else {
            self.note(Some(Failure::timed_out(time)));
            let late = timeout(LATE * time, &mut answered).await;
            drop(answered);
            if late.is_err() {
                self.has_lost_answer.store(true, Ordering::Relaxed);
            }
            // The server would have ended it by now: the connection hangs.
            if let (Err(_), Some(used)) = (&late, &used) {
                self.leave(used).await;
            }
            late.unwrap_or_else(|_| Err(Failure::timed_out((LATE + 1) * time)))
        };
        self.note(answered.as_ref().err().cloned());
        Ok(answered?.unwrap_or_default())
    }

    /// Has another connection made, unless there is one already.
    async fn leave(&self, used: &Arc<Session>) {
        let mut client = self.client.lock().await;
        if client.as_ref().is_some_and(|client| Arc::ptr_eq(client, used)) {
            *client = None;
        }
    }

    /// Notes an answer, or why there is none.
    fn note(&self, failure: Option<Failure>) {
        let silence = match failure {
            Some(Failure::Unknown(why)) => Some(why.message().to_owned()),
            _ => None,
        };
        let mut silent = self.silent.lock().unwrap_or_else(PoisonError::into_inner);
        let since = silent.as_ref().map_or_else(Instant::now, |(since, _)| *since);
        *silent = silence.map(|why| (since, why));
    }

    /// The client, which is connected.
    async fn client(&self) -> Result<Arc<Session>, Failure> {
        let mut client = self.client.lock().await;
        if let Some(client) = client.as_ref().filter(|client| !client.is_closed()) {
            return Ok(Arc::clone(client));
        }
        let new = Arc::new(Session::new(&self.servers, None).await?);
        *client = Some(Arc::clone(&new));
        Ok(new)
    }
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").field("servers", &self.servers).finish_non_exhaustive()
    }
}

impl Link for Connection {
    fn silent(&self) -> Option<Duration> {
        let silent = self.silent.lock().unwrap_or_else(PoisonError::into_inner);
        let (since, _) = silent.as_ref()?;
        Some(since.elapsed()).filter(|silent| *silent >= MOMENT)
    }

    fn unreachable(&self) -> Error {
        let silent = self.silent.lock().unwrap_or_else(PoisonError::into_inner);
        let why = silent.as_ref().map_or("no answer", |(_, why)| why);
        Failure::Unknown(Unreachable::new(UnreachableKind::TimedOut, why)).error(crate::STORE)
    }
}

/// A connection, which ends when this is dropped: what was sent and not answered is not waited for.
pub(crate) struct Session {
    client: Client,
    running: JoinHandle<()>,
}

impl Session {
    /// Connects. What the server notifies of goes to `heard`.
    pub(crate) async fn new(
        servers: &Servers,
        heard: Option<mpsc::UnboundedSender<String>>,
    ) -> Result<Self, Failure> {
        let now = || servers.now().map_err(|why| Failure::Unknown(why.into()));
        let (config, tls) = now()?;
        let connected = match config.connect(tls).await {
            // As with libpq: encryption was only preferred.
            Err(error)
                if config.get_ssl_mode() == SslMode::Prefer && failures::is_of_tls(&error) =>
            {
                let (mut config, tls) = now()?;
                config.ssl_mode(SslMode::Disable).connect(tls).await
            }
            connected => connected,
        };
        let (client, mut connection) =
            connected.map_err(|error| failures::of_connecting(error, &servers.address()))?;
        failures::of_make(
            connection.parameter("server_version"),
            connection.parameter("crdb_version"),
        )?;
        let running = tokio::spawn(async move {
            while let Some(Ok(message)) = poll_fn(|cx| connection.poll_message(cx)).await {
                if let (AsyncMessage::Notification(note), Some(heard)) = (message, &heard) {
                    let _ = heard.send(note.payload().to_owned());
                }
            }
        });
        Ok(Self { client, running })
    }
}

impl Deref for Session {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.running.abort();
    }
}
