//! The connection by which the server notifies us.

use std::time::Duration;

use navlock_machines::load::about;
use tokio::{
    sync::mpsc,
    time::{sleep, timeout},
};
use tokio_postgres::Config;

use crate::{
    LOGS,
    connection::connect,
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
const DEAF: Duration = Duration::from_secs(60);

/// What a listener tells itself, to see whether it hears.
const SELF: &str = "";

/// Listens, as long as somebody wants to hear. Through a pooler that gives each transaction another session, nothing
/// is heard: so the listener first notifies itself, from another connection.
pub(crate) async fn listen(store: Postgres, notes: mpsc::UnboundedSender<Note>) {
    let Ok(config) = store.0.options.listen_config() else { return };
    let channel = channel(store.0.options.schema_name(), store.0.listener);
    let mut pause = SOON;
    loop {
        pause = match hear(&store, &config, &channel, &notes).await {
            None => return,
            // Perhaps the server has crashed.
            Some(Hearing::Ended) => SOON,
            Some(Hearing::Deaf) => DEAF,
            Some(Hearing::Failed) => (2 * pause).min(Duration::from_secs(1)),
        };
        store.0.recovers.send_replace(());
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
    Deaf,
    Ended,
}

/// Listens by one connection. `None` if nobody wants to hear any more.
async fn hear(
    store: &Postgres,
    config: &Config,
    channel: &str,
    notes: &mpsc::UnboundedSender<Note>,
) -> Option<Hearing> {
    let (heard, mut places) = mpsc::unbounded_channel();
    let Ok(client) = connect(config, Some(heard)).await else { return Some(Hearing::Failed) };
    if client.batch_execute(&format!("listen {channel}")).await.is_err() {
        return Some(Hearing::Failed);
    }
    let say = format!("select pg_notify('{channel}', '{SELF}')");
    if store.0.calls.query(&say, store.time()).await.is_err() {
        return Some(Hearing::Failed);
    }
    if !matches!(timeout(store.time(), places.recv()).await, Ok(Some(_))) {
        let _ = client.batch_execute(&format!("unlisten {channel}")).await;
        tracing::info!(target: LOGS, "no notification comes through this URL: a listen-url may lead there directly");
        return Some(Hearing::Deaf);
    }
    notes.send(Note::Listening(true)).ok()?;
    while let Some(place) = places.recv().await {
        notes.send(Note::Heard(place)).ok()?;
    }
    Some(Hearing::Ended)
}
