//! Decides which requests are let in.
//!
//! A request has to pass three checks, in this order:
//!
//! 1. Is it meant for this server (`Host`)? Other names are refused, even if they resolve to this machine,
//!    because an attacker's name may resolve to it as well (DNS rebinding). The browser would then hand our
//!    answer to the attacker's page.
//! 2. Does it come from our page, or from no page at all (`Origin`, `Sec-Fetch-Site`)? Cookies and
//!    `SameSite` alone do not tell this: they ignore ports, so other servers of this machine count as the
//!    same site.
//! 3. Does it bring the token, or the cookie that is given for the token?
//!
//! The cookie is restricted to the path of this server's page, and the path is random as well. So browsers
//! do not send it to other servers of this machine, and the cookies of two such servers do not replace each
//! other.

use axum::http::{HeaderMap, Method, StatusCode, Uri, header};

const COOKIE: &str = "navlock-web";

pub(super) struct Gate {
    /// The port of this server, if it is to be asked by that port alone.
    port: Option<u16>,
    token: String,
    cookie: String,
    /// The path of the page.
    path: String,
}

/// The sender of a request that was let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sender {
    /// Our page.
    Page,
    /// A program that has sent the token, or a browser that was given the address with the token in
    /// it.
    Token,
}

/// The answer to a request that was not let in.
pub(super) type Refusal = (StatusCode, &'static str);

impl Gate {
    pub(super) fn new(port: Option<u16>) -> Self {
        let path = format!("/{}", &random()[..12]);
        Self { port, token: random(), cookie: random(), path }
    }

    /// The path and query of the address to open first, with the token.
    pub(super) fn entry(&self) -> String {
        format!("/?token={}", self.token)
    }

    /// The path of the page, without a slash after it.
    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// The header that gives the cookie to a browser that has sent the token.
    pub(super) fn set_cookie(&self) -> String {
        format!("{COOKIE}={}; Path={}/; HttpOnly; SameSite=Strict", self.cookie, self.path)
    }

    pub(super) fn admit(
        &self,
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
    ) -> Result<Sender, Refusal> {
        let host = only(headers, header::HOST).filter(|host| is_ours(host, self.port));
        let host = host.filter(|host| uri.authority().is_none_or(|said| said.as_str() == *host));
        let Some(host) = host else {
            return Err((StatusCode::FORBIDDEN, "not the host of this page"));
        };
        let sender = self.known(uri, headers);
        let is_own = |origin: &str| origin.strip_prefix("http://") == Some(host);
        let origin = headers.get_all(header::ORIGIN);
        let by_origin = origin.iter().all(|origin| origin.to_str().is_ok_and(is_own));
        let site = headers.get_all("sec-fetch-site");
        let by_site = site.iter().all(|site| site == "same-origin" || site == "none");
        // Somebody has clicked on the address, on whatever page it stood. No page can read the
        // answer to that.
        let is_entry = *method == Method::GET
            && uri.path() == "/"
            && sender == Some(Sender::Token)
            && only(headers, "sec-fetch-mode") == Some("navigate")
            && only(headers, "sec-fetch-dest") == Some("document");
        if !(by_origin && by_site || is_entry) {
            return Err((StatusCode::FORBIDDEN, "another page may not ask this"));
        }
        let why = "open the address that 'navlock web' has printed, which has the token in it";
        let sender = sender.ok_or((StatusCode::UNAUTHORIZED, why))?;
        // A request that changes something must bring the token, or come from our page with an
        // `Origin` that says so.
        let is_safe = [Method::GET, Method::HEAD].contains(method);
        if !is_safe && sender == Sender::Page && origin.iter().next().is_none() {
            return Err((StatusCode::FORBIDDEN, "only the page itself may ask this"));
        }
        Ok(sender)
    }

    fn known(&self, uri: &Uri, headers: &HeaderMap) -> Option<Sender> {
        let bearer = only(headers, header::AUTHORIZATION).and_then(|said| said.split_once(' '));
        let bearer = bearer.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
        let query = parameter(uri, "token");
        if [bearer.map(|(_, token)| token), query]
            .into_iter()
            .flatten()
            .any(|it| is(it, &self.token))
        {
            return Some(Sender::Token);
        }
        let cookies = headers.get_all(header::COOKIE).iter().filter_map(|all| all.to_str().ok());
        let mut ours = cookies
            .flat_map(|all| all.split(';'))
            .filter_map(|cookie| cookie.trim().strip_prefix(COOKIE)?.strip_prefix('='));
        ours.any(|cookie| is(cookie, &self.cookie)).then_some(Sender::Page)
    }
}

/// Whether the header `Host` means this machine with this port, or with any port: somebody may forward any
/// port to a Unix socket.
fn is_ours(host: &str, ours: Option<u16>) -> bool {
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => (name, Some(port)),
        _ => (host, None),
    };
    let is_here = ["127.0.0.1", "[::1]"].contains(&name) || name.eq_ignore_ascii_case("localhost");
    is_here
        && match (ours, port) {
            (None, port) => port.is_none_or(|port| port.parse::<u16>().is_ok()),
            // Browsers leave out the default port of the scheme.
            (Some(80), None) => true,
            (Some(ours), port) => port == Some(&*ours.to_string()),
        }
}

/// A parameter of the query. The value is not decoded, so this is only for values that need no escapes.
pub(super) fn parameter<'a>(uri: &'a Uri, key: &str) -> Option<&'a str> {
    let mut parameters = uri.query().unwrap_or_default().split('&');
    parameters.find_map(|parameter| parameter.strip_prefix(key)?.strip_prefix('='))
}

/// The value of the header, if it was sent exactly once.
fn only(headers: &HeaderMap, name: impl header::AsHeaderName) -> Option<&str> {
    let mut all = headers.get_all(name).iter();
    let one = all.next()?;
    if all.next().is_some() { None } else { one.to_str().ok() }
}

/// Compares in constant time, so that the time does not tell how much of the secret is right.
fn is(said: &str, secret: &str) -> bool {
    let differences = said.bytes().zip(secret.bytes()).fold(0, |all, (a, b)| all | (a ^ b));
    said.len() == secret.len() && differences == 0
}

/// 122 random bits from the operating system, as text.
fn random() -> String {
    format!("{:032x}", u128::from_be_bytes(navlock::ClientId::random().to_bytes()))
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderName;

    use super::*;

    const OURS: &str = "127.0.0.1:4000";

    fn admit(
        gate: &Gate,
        method: &Method,
        path: &str,
        all: &[(&str, &str)],
    ) -> Result<Sender, u16> {
        let mut headers = HeaderMap::new();
        for (name, value) in all {
            headers.append(HeaderName::try_from(*name).unwrap(), value.parse().unwrap());
        }
        let uri = path.parse().unwrap();
        gate.admit(method, &uri, &headers).map_err(|(status, _)| status.as_u16())
    }

    #[test]
    fn only_names_of_this_machine_and_port_are_hosts() {
        for host in ["127.0.0.1:4000", "localhost:4000", "LocalHost:4000", "[::1]:4000"] {
            assert!(is_ours(host, Some(4000)), "{host}");
        }
        for host in [
            "",
            ":4000",
            "127.0.0.1",
            "127.0.0.1:4001",
            "127.0.0.1:04000",
            "evil.example:4000",
            "localhost.evil.example:4000",
            "127.0.0.1.evil.example:4000",
            "[::1]",
            "::1:4000",
            "0.0.0.0:4000",
            "127.0.0.2:4000",
            "127.0.0.1:4000:4000",
            "localhost.:4000",
        ] {
            assert!(!is_ours(host, Some(4000)), "{host}");
        }
        assert!(is_ours("localhost", Some(80)) && is_ours("localhost", None));
        assert!(is_ours("127.0.0.1:8080", None) && !is_ours("evil.example:8080", None));
    }

    #[test]
    fn nobody_is_let_in_without_the_token_or_its_cookie() {
        let gate = Gate::new(Some(4000));
        let get = |path: &str, all: &[(&str, &str)]| {
            admit(&gate, &Method::GET, path, &[&[("host", OURS)], all].concat())
        };
        assert_eq!(get("/", &[]), Err(401));
        assert_eq!(get(&format!("/?token={}", gate.cookie), &[]), Err(401));
        assert_eq!(get("/?token=", &[]), Err(401));
        assert_eq!(get(&gate.entry(), &[]), Ok(Sender::Token));
        let bearer = format!("Bearer {}", gate.token);
        assert_eq!(get("/metrics", &[("authorization", &bearer)]), Ok(Sender::Token));
        let cookie = format!("a=b; {COOKIE}={}", gate.cookie);
        assert_eq!(get("/metrics", &[("cookie", &cookie)]), Ok(Sender::Page));
        assert_eq!(get("/", &[("cookie", &format!("{COOKIE}={}", gate.token))]), Err(401));
        assert_eq!(admit(&gate, &Method::GET, &gate.entry(), &[]), Err(403));
        let two = [("host", OURS), ("host", "evil.example")];
        assert_eq!(admit(&gate, &Method::GET, &gate.entry(), &two), Err(403));
        let other = format!("http://evil.example{}", gate.entry());
        assert_eq!(get(&other, &[]), Err(403));
    }

    #[test]
    fn no_other_page_is_let_in_though_its_browser_has_the_cookie() {
        let gate = Gate::new(Some(4000));
        let cookie = format!("{COOKIE}={}", gate.cookie);
        let ask = |method, all: &[(&str, &str)]| {
            let all = [&[("host", OURS), ("cookie", &cookie)], all].concat();
            admit(&gate, method, "/api/steal", &all)
        };
        let ours = format!("http://{OURS}");
        assert_eq!(ask(&Method::POST, &[("origin", &ours)]), Ok(Sender::Page));
        assert_eq!(ask(&Method::POST, &[]), Err(403));
        for origin in
            ["null", "http://127.0.0.1:4001", "http://localhost:4000", "https://127.0.0.1:4000"]
        {
            assert_eq!(ask(&Method::POST, &[("origin", origin)]), Err(403), "{origin}");
            assert_eq!(ask(&Method::GET, &[("origin", origin)]), Err(403), "{origin}");
        }
        for (site, expected) in
            [("same-origin", true), ("none", true), ("same-site", false), ("cross-site", false)]
        {
            assert_eq!(ask(&Method::GET, &[("sec-fetch-site", site)]).is_ok(), expected, "{site}");
        }
        // A click on the address lets in, wherever the link stands; a fetch of it by another page
        // does not.
        let enter = |mode, dest| {
            let all = [
                ("host", OURS),
                ("sec-fetch-site", "cross-site"),
                ("sec-fetch-mode", mode),
                ("sec-fetch-dest", dest),
            ];
            admit(&gate, &Method::GET, &gate.entry(), &all)
        };
        assert_eq!(enter("navigate", "document"), Ok(Sender::Token));
        assert_eq!(enter("navigate", "iframe"), Err(403));
        assert_eq!(enter("no-cors", "image"), Err(403));
    }
}
