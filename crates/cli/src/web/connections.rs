//! Serves connections, but only so many at a time: each costs a descriptor and memory, and any program of this
//! machine can open connections.

use std::{io, sync::Arc, time::Duration};

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::Semaphore,
    time::sleep,
};
use tokio_io_timeout::TimeoutStream;

/// At most this many connections are served at a time; others wait in the listener's queue. A page
/// has one all the time, and now and then a few more.
const MOST: usize = 128;

/// How long a connection may take to send a request, and how long it is kept after an answer. A request without
/// the token ends its connection, so a program that only connects keeps nobody out for long.
const SILENT: Duration = Duration::from_secs(3);

/// For how long a client may read nothing of what is written.
const STALLED: Duration = Duration::from_secs(30);

/// For how long no connection is accepted after there was no room for one, or the client that connected has gone.
const PAUSE: Duration = Duration::from_millis(100);

/// Serves connections as long as the process lasts.
pub(super) async fn serve<C>(mut accept: impl AsyncFnMut() -> io::Result<C>, router: Router)
where
    C: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let room = Arc::new(Semaphore::new(MOST));
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(SILENT);
    loop {
        let place = Arc::clone(&room).acquire_owned().await;
        let place = place.expect("nobody closes the semaphore");
        let Ok(connection) = accept().await else {
            sleep(PAUSE).await;
            continue;
        };
        let service = TowerToHyperService::new(router.clone());
        let mut connection = TimeoutStream::new(connection);
        connection.set_write_timeout(Some(STALLED));
        let served = http.serve_connection(TokioIo::new(Box::pin(connection)), service);
        tokio::spawn(async move {
            // An error means that the client has gone, or was silent.
            let _ = served.await;
            drop(place);
        });
    }
}
