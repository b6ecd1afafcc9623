//! The connection by which the server notifies us.

use std::time::Duration;

use navlock_machines::load::about;
use tokio::{
    sync::mpsc,
    time::{sleep, timeout},
};

use crate::{
    LOGS,
    connection::Session,
    postgres::{Postgres, channel},
};

/// What is told by the connection that listens.
pub(crate) enum Note {
    /// Something has happened in this place.
    Heard(String),
    /// Whether there is such a connection.
    Listening(bool),
}

/// The pause before another connection listens: first, and after one that has heard nothing.
const SOON: Duration = Duration::from_millis(20);
const UNHEARD: Duration = Duration::from_secs(60);

/// The longest pause after one that could not be made.
const LONGEST: Duration = Duration::from_secs(30);

/// Listens, as long as somebody wants to hear. Through a pooler that gives each transaction another session, nothing
/// is heard: so the listener first notifies itself, from another connection.
pub(crate) async fn listen(store: Postgres, notes: mpsc::UnboundedSender<Note>) {
    let channel = channel(store.0.options.schema_name(), store.0.listener);
    let mut pause = SOON;
    loop {
        pause = match hear(&store, &channel, &notes).await {
            None => return,
            Some(Hearing::Ended) => {
                // Perhaps the server has crashed.
                store.0.recovers.send_replace(());
                SOON
            }
            Some(Hearing::Unheard) => UNHEARD,
            Some(Hearing::Failed) => (2 * pause).min(LONGEST),
        };
        if notes.send(Note::Listening(false)).is_err() {
            return;
        }
        sleep(about(pause)).await;
    }
}

/// How a connection to listen has ended.
enum Hearing {
    /// There was none.
    Failed,
    /// It hears nothing.
    Unheard,
    Ended,
}

/// Listens by one connection. `None` if nobody wants to hear any more.
async fn hear(
    store: &Postgres,
    channel: &str,
    notes: &mpsc::UnboundedSender<Note>,
) -> Option<Hearing> {
    let (heard, mut places) = mpsc::unbounded_channel();
    let client = match Session::new(&store.0.listen_servers, Some(heard)).await {
        Ok(client) => client,
        Err(failure) => {
            tracing::debug!(target: LOGS, ?failure, "there is no connection to listen");
            return Some(Hearing::Failed);
        }
    };
    let begun = timeout(store.time(), client.batch_execute(&format!("listen {channel}"))).await;
    if !matches!(begun, Ok(Ok(()))) {
        return Some(Hearing::Failed);
    }
    let say = format!("select pg_notify('{channel}', '{channel}')");
    if store.0.calls.query(&say, store.time()).await.is_err() {
        return Some(Hearing::Failed);
    }
    // A pooler may give the notes of others to this session.
    let own = async {
        while places.recv().await? != *channel {}
        Some(())
    };
    if !matches!(timeout(store.time(), own).await, Ok(Some(()))) {
        let _ = client.batch_execute(&format!("unlisten {channel}")).await;
        tracing::info!(target: LOGS, "no notification comes through this URL: a listen-url may lead there directly");
        return Some(Hearing::Unheard);
    }
    notes.send(Note::Listening(true)).ok()?;
    while let Some(place) = places.recv().await {
        notes.send(Note::Heard(place)).ok()?;
    }
    Some(Hearing::Ended)
}
