//! A page that shows holders and waiters as things happen.
//!
//! One thread looks at the broker ([`feed`]) and keeps the state that pages show ([`store`]). Each
//! page receives this state by server-sent events. Pages ask the broker for nothing, except to
//! steal.

pub(crate) mod browser;
mod clock;
mod connections;
mod feed;
mod gate;
mod render;
mod routes;
mod store;

use std::{
    io,
    net::{SocketAddr, TcpListener},
    sync::{Arc, OnceLock},
};

use navlock::Place;
use navlock_platform::socket::{self, AsyncListener};
use tokio::runtime;

use self::{browser::Entry, feed::Feed, gate::Gate, routes::Site};
use crate::json::{IfKnown, Object};

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
    /// A site that shows the broker of this place, and at first only this bucket. Pages can steal if
    /// `allow_steal` is set. `entry`, if there is one, is removed when somebody has come in.
    pub(crate) fn new(
        listener: Listener,
        place: Place,
        bucket: Option<&str>,
        allow_steal: bool,
        entry: Arc<OnceLock<Entry>>,
    ) -> io::Result<Self> {
        let port = match &listener {
            Listener::Tcp(address, _) => Some(address.port()),
            Listener::Unix(_) => None,
        };
        let navlock::AgentInfo { host, user, .. } = navlock::this_process();
        // Where several users meet, pages say whose the locks of others are.
        let user = place.is_of_system().then_some(user);
        let about = Object::default()
            .string("socket", &place.socket().to_string_lossy())
            .string("host", &host)
            .if_known(user.as_ref(), |it, user| it.string("user", user))
            .boolean("canSteal", allow_steal)
            .if_known(bucket, |it, bucket| it.string("bucket", bucket));
        let (feed, gate) = (Feed::start(place.clone())?, Gate::new(port));
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
        runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
            match self.listener {
                Listener::Tcp(_, listener) => {
                    listener.set_nonblocking(true)?;
                    let listener = tokio::net::TcpListener::from_std(listener)?;
                    connections::serve(async || Ok(listener.accept().await?.0), router).await;
                }
                Listener::Unix(listener) => {
                    listener.set_nonblocking(true)?;
                    let listener = AsyncListener::from_std(listener)?;
                    connections::serve(async || Ok(listener.accept().await?.0), router).await;
                }
            }
            Ok(())
        })
    }
}
