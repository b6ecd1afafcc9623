//! A page that shows holders and waiters as things happen.
//!
//! One thread looks at the broker ([`feed`]) and keeps the state that pages show ([`store`]). Each
//! page receives this state by server-sent events. Pages ask the broker for nothing, except to
//! steal.

pub(crate) mod browser;
mod clock;
mod connection_limit;
mod feed;
mod gate;
mod name_numbers;
mod render;
mod routes;
mod store;

use std::{
    io,
    net::{SocketAddr, TcpListener},
    sync::{Arc, OnceLock},
    time::Duration,
};

use navlock::Place;
use navlock_platform::socket::{self, AsyncListener, AsyncStream};
use tokio::{runtime, time::sleep};

use self::{
    browser::Entry,
    connection_limit::{Admission, LimitedListener},
    feed::Feed,
    gate::{Gate, Hosts},
    routes::Site,
};
use crate::json::Object;

/// For how long no connection is accepted after there was no room for one.
const PAUSE: Duration = Duration::from_millis(100);

/// Where pages are served.
pub(crate) enum Listener {
    Tcp(SocketAddr, TcpListener),
    Unix(socket::Listener),
}

/// A site that is ready to be served.
pub(crate) struct Web {
    listener: Listener,
    site: Arc<Site>,
}

impl Web {
    /// A site that shows the broker of this place. Pages can steal if `allow_steal` is set. `entry`,
    /// if there is one, is removed when somebody has come in.
    pub(crate) fn new(
        listener: Listener,
        place: Place,
        allow_steal: bool,
        entry: Arc<OnceLock<Entry>>,
    ) -> io::Result<Self> {
        let hosts = match &listener {
            Listener::Tcp(address, _) => Hosts::Port(address.port()),
            Listener::Unix(_) => Hosts::AnyPort,
        };
        let about = Object::default()
            .string("socket", &place.socket().to_string_lossy())
            .string("host", &navlock::this_process().host)
            .boolean("canSteal", allow_steal);
        let (feed, gate) = (Feed::start(place.clone())?, Gate::new(hosts));
        let site = Site { feed, gate, about, place, allow_steal, entry };
        Ok(Self { listener, site: Arc::new(site) })
    }

    /// The address by which a browser enters.
    pub(crate) fn address(&self) -> String {
        let host = match &self.listener {
            Listener::Tcp(address, _) => address.to_string(),
            Listener::Unix(_) => "localhost".to_owned(),
        };
        format!("http://{host}{}", self.site.gate.entry())
    }

    /// Serves the site as long as the process lasts.
    pub(crate) fn serve(self) -> io::Result<()> {
        let router = routes::router(self.site);
        let service = router.into_make_service_with_connect_info::<Admission>();
        runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
            match self.listener {
                Listener::Tcp(_, listener) => {
                    listener.set_nonblocking(true)?;
                    let listener = tokio::net::TcpListener::from_std(listener)?;
                    axum::serve(LimitedListener::new(listener), service).await
                }
                Listener::Unix(listener) => {
                    listener.set_nonblocking(true)?;
                    let listener = Sockets(AsyncListener::from_std(listener)?);
                    axum::serve(LimitedListener::new(listener), service).await
                }
            }
        })
    }
}

/// A listener at the path of a socket, of the kind that the system has.
struct Sockets(AsyncListener);

impl axum::serve::Listener for Sockets {
    type Io = AsyncStream;
    type Addr = ();

    async fn accept(&mut self) -> (AsyncStream, ()) {
        loop {
            if let Ok((connection, _)) = self.0.accept().await {
                return (connection, ());
            }
            // There is no room for one more connection, or the client that connected has gone.
            sleep(PAUSE).await;
        }
    }

    fn local_addr(&self) -> io::Result<()> {
        Ok(())
    }
}
