//! What a row cannot do without, and PostgreSQL's own locks, by sessions of the driver.

use std::{future::poll_fn, thread, time::Instant};

use tokio::{runtime::Runtime, sync::mpsc, time::timeout};
use tokio_postgres::{AsyncMessage, Client, NoTls};

use super::{
    repeat::{HANDOVERS, MACHINES, TIME_TO_LIVE, WAIT, at_once, each},
    server::Server,
};
use crate::harness::Summary;

/// A session of the driver, on a runtime of its own. What it hears of goes to the receiver.
struct Session {
    runtime: Runtime,
    client: Client,
    heard: mpsc::UnboundedReceiver<()>,
}

impl Session {
    fn new(server: &Server) -> Result<Self, String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| error.to_string())?;
        let (tell, heard) = mpsc::unbounded_channel();
        let client = runtime.block_on(async {
            let (client, mut connection) = tokio_postgres::connect(&server.url(), NoTls).await?;
            tokio::spawn(async move {
                while let Some(Ok(message)) = poll_fn(|cx| connection.poll_message(cx)).await {
                    if matches!(message, AsyncMessage::Notification(_)) {
                        let _ = tell.send(());
                    }
                }
            });
            Ok::<_, tokio_postgres::Error>(client)
        });
        Ok(Self { runtime, client: client.map_err(|error| error.to_string())?, heard })
    }

    fn call(&self, text: &str) -> Result<(), String> {
        let done = self.runtime.block_on(self.client.simple_query(text));
        done.map(drop).map_err(|error| error.to_string())
    }

    fn hear(&mut self) -> Result<(), String> {
        let heard = async { timeout(TIME_TO_LIVE, self.heard.recv()).await };
        let heard = self.runtime.block_on(heard);
        heard.map(drop).map_err(|_| "nothing was heard".to_owned())
    }

    /// Does these two so often. Microseconds for each time.
    fn repeat(&self, texts: [&str; 2], count: usize) -> Result<f64, String> {
        let since = Instant::now();
        for _ in 0..count {
            for text in texts {
                self.call(text)?;
            }
        }
        Ok(each(since.elapsed(), count))
    }
}

fn texts(name: &str) -> [String; 2] {
    [
        format!("insert into floor values ('{name}')"),
        format!("delete from floor where name = '{name}'"),
    ]
}

pub(super) fn rows(server: &Server, name: &str, count: usize) -> Result<f64, String> {
    let [insert, delete] = texts(name);
    let session = Session::new(server)?;
    session.repeat([&insert, &delete], 1)?;
    session.repeat([&insert, &delete], count)
}

pub(super) fn advisory(server: &Server, _: &str, count: usize) -> Result<f64, String> {
    Session::new(server)?
        .repeat(["select pg_advisory_lock(7)", "select pg_advisory_unlock(7)"], count)
}

pub(super) fn rows_of_machines(server: &Server, name: &str, count: usize) -> Result<f64, String> {
    at_once(count, |nth| {
        let (session, [insert, delete]) = (Session::new(server)?, texts(&format!("{name}/{nth}")));
        session.repeat([&insert, &delete], 1)?;
        Ok(move || session.repeat([&insert, &delete], count / MACHINES).map(drop))
    })
}

/// One writes and notifies, and the other one hears it and reads.
pub(super) fn notified(server: &Server, _: &str, count: usize) -> Result<f64, String> {
    let (teller, mut hearer) = (Session::new(server)?, Session::new(server)?);
    hearer.call("listen turn")?;
    let mut samples = Vec::new();
    for _ in 0..count.min(HANDOVERS) {
        thread::sleep(WAIT);
        let since = Instant::now();
        teller.call("update turn set n = n + 1; notify turn")?;
        hearer.hear()?;
        hearer.call("select n from turn")?;
        samples.push(since.elapsed().as_secs_f64() * 1e6);
    }
    Ok(Summary::of(samples).median)
}
