//! The answers to requests.

use std::{
    convert::Infallible,
    sync::{Arc, OnceLock},
    time::Duration,
};

use axum::{
    Router,
    body::Bytes,
    extract::{Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, header},
    middleware::{self, Next},
    response::{
        Html, IntoResponse, Response,
        sse::{Event, KeepAlive, Sse},
    },
    routing::{get, post},
};
use futures_util::stream;
use navlock::Place;
use tokio::sync::watch;

use super::{
    browser::Entry,
    feed::Feed,
    gate::{Gate, parameter},
};
use crate::{counts::prometheus, json::Object, steal};

const PAGE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

const CSS: &str = "text/css; charset=utf-8";
const JAVASCRIPT: &str = "text/javascript; charset=utf-8";
const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";

/// How long a page that has lost its connection waits before it asks again.
const RETRY: Duration = Duration::from_secs(1);

/// With this policy, the page loads nothing from anywhere else, no text becomes part of its markup,
/// and no other page can embed it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                      img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
                      require-trusted-types-for 'script'; trusted-types 'none'";

const HEADERS: [(HeaderName, &str); 7] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::CACHE_CONTROL, "no-store"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// The header that our page sends when it asks for a change. A browser lets another page send this
/// header only if our server allows that, and our server does not.
const INTENT: &str = "x-navlock";

pub(super) struct Site {
    pub(super) feed: Arc<Feed>,
    pub(super) gate: Gate,
    /// What the page shows of the place: the broker's socket, and this machine's name.
    pub(super) about: Object,
    pub(super) place: Place,
    pub(super) allow_steal: bool,
    pub(super) entry: Arc<OnceLock<Entry>>,
}

type Shared = State<Arc<Site>>;

pub(super) fn router(site: Arc<Site>) -> Router {
    let below = |path: &str| format!("{}{path}", site.gate.path());
    Router::new()
        .route("/", get(enter))
        .route("/api/state", get(state))
        .route("/metrics", get(metrics))
        .route(&below("/"), get(async || Html(PAGE)))
        .route(&below("/page.css"), get(async || ([(header::CONTENT_TYPE, CSS)], STYLE)))
        .route(&below("/page.js"), get(async || ([(header::CONTENT_TYPE, JAVASCRIPT)], SCRIPT)))
        .route(&below("/events"), get(events))
        .route(&below("/api/state"), get(state))
        .route(&below("/api/history"), get(history))
        .route(&below("/api/steal"), post(steal))
        .route(&below("/metrics"), get(metrics))
        .fallback(async || (StatusCode::NOT_FOUND, "there is no such thing here\n"))
        .layer(middleware::from_fn_with_state(Arc::clone(&site), guard))
        .with_state(site)
}

async fn guard(State(site): Shared, request: Request, next: Next) -> Response {
    let mut response = match site.gate.admit(request.method(), request.uri(), request.headers()) {
        Ok(_) => next.run(request).await,
        // A refused request ends its connection, so that nobody keeps a place by such requests.
        Err((status, why)) => {
            (status, [(header::CONNECTION, "close")], format!("{why}\n")).into_response()
        }
    };
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

fn json(text: String) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], text).into_response()
}

/// Turns the token of the address into a cookie, and goes to the address without the token.
///
/// This is no redirect: after a redirect, a browser would count the page as requested by the page
/// with the link, and would not send the cookie.
async fn enter(State(site): Shared) -> Response {
    site.entry.get().into_iter().for_each(Entry::remove);
    let path = site.gate.path();
    let page = format!(
        "<!doctype html><meta charset=utf-8><meta http-equiv=refresh content=\"0;url={path}/\">\
         <title>navlock</title><a href=\"{path}/\">navlock</a>\n"
    );
    ([(header::SET_COOKIE, site.gate.set_cookie())], Html(page)).into_response()
}

/// Waits until the state is known.
async fn known(versions: &mut watch::Receiver<u64>) {
    // An error is not possible, because the sender lasts as long as the site.
    let _ = versions.wait_for(|version| *version > 0).await;
}

async fn state(State(site): Shared) -> Response {
    known(&mut site.feed.versions()).await;
    json(site.about.clone().with(&site.feed.store().state()).to_string() + "\n")
}

async fn events(State(site): Shared) -> impl IntoResponse {
    let versions = site.feed.versions();
    let told = stream::unfold((site, versions, 0), async |(site, mut versions, seen)| {
        versions.wait_for(|version| *version > seen).await.ok()?;
        // The answer contains all changes until now, and even changes that become known in this
        // moment.
        versions.mark_unchanged();
        let (event, version) = {
            let store = site.feed.store();
            let event = if let Some(change) = store.since(seen) {
                Event::default().event("change").data(change.to_string())
            } else {
                let state = site.about.clone().with(&store.state());
                Event::default().event("state").retry(RETRY).data(state.to_string())
            };
            (event, store.version())
        };
        Some((Ok::<_, Infallible>(event), (site, versions, version)))
    });
    Sse::new(told).keep_alive(KeepAlive::default())
}

async fn history(State(site): Shared, uri: Uri) -> Response {
    let key = parameter(&uri, "key").and_then(|key| key.parse().ok());
    let history = key.and_then(|key| site.feed.store().history_of(key));
    history.map_or_else(|| (StatusCode::NOT_FOUND, "no such name is known\n").into_response(), json)
}

async fn metrics(State(site): Shared) -> Response {
    let place = site.place.clone();
    match tokio::task::spawn_blocking(move || prometheus(&place)).await {
        Ok(Ok(metrics)) => ([(header::CONTENT_TYPE, PROMETHEUS)], metrics).into_response(),
        Ok(Err(failure)) => refuse(StatusCode::SERVICE_UNAVAILABLE, failure.message()),
        Err(_) => refuse(StatusCode::INTERNAL_SERVER_ERROR, "it could not be asked"),
    }
}

/// Steals a name from its holders. The caller must have seen these holders, so it says which
/// version it has.
async fn steal(State(site): Shared, headers: HeaderMap, body: Bytes) -> Response {
    if !site.allow_steal {
        return refuse(
            StatusCode::FORBIDDEN,
            "nothing may be stolen here; 'navlock web --allow-steal' lets you",
        );
    }
    if headers.get(INTENT).is_none_or(|intent| intent != "steal") {
        return refuse(StatusCode::FORBIDDEN, "only the page itself may ask this");
    }
    let Some((key, version)) = asked(&body) else {
        return refuse(StatusCode::BAD_REQUEST, "say {\"key\": NUMBER, \"version\": NUMBER}");
    };
    let Some((name, holders)) = site.feed.store().seen_holding(key, version) else {
        let why = "somebody else holds it by now, or nobody; nothing was stolen, look again";
        return refuse(StatusCode::CONFLICT, why);
    };
    let place = site.place.clone();
    let steal = move || steal::steal(&place, &name, &holders, "navlock web");
    match tokio::task::spawn_blocking(steal).await {
        Ok(Ok(())) => json("{\"stolen\":true}\n".to_owned()),
        Ok(Err(why)) => refuse(StatusCode::CONFLICT, &why),
        Err(_) => refuse(StatusCode::INTERNAL_SERVER_ERROR, "it could not be asked"),
    }
}

fn refuse(status: StatusCode, why: &str) -> Response {
    (status, format!("{why}\n")).into_response()
}

/// The number of the name, and the version in which the caller has seen its holders.
fn asked(body: &[u8]) -> Option<(u64, u64)> {
    let said: serde_json::Value = serde_json::from_slice(body).ok()?;
    Some((said.get("key")?.as_u64()?, said.get("version")?.as_u64()?))
}
