//! Who is let in.
//!
//! Three questions, in this order, each of which must be answered well:
//!
//! 1. Was this server meant (`Host`)? A name that somebody else has made resolve to this machine is refused:
//!    a browser would take the answer for that one's page.
//! 2. Does a page of ours ask, or nobody's (`Origin`, `Sec-Fetch-Site`)? Another server of this machine is
//!    another site to neither cookies nor `SameSite`, as those know no ports.
//! 3. Does whoever asks know the token, or has a cookie that was given for it?
//!
//! The cookie is for the path of this server's page, which is a random one too. So it is not sent to other
//! servers of this machine, and theirs and ours do not replace each other.

use axum::http::{HeaderMap, Method, StatusCode, Uri, header};

const COOKIE: &str = "navlock-web";

/// What `Host` may say.
#[derive(Clone, Debug)]
pub(super) enum Hosts {
    /// This port of this machine.
    Port(u16),
    /// This machine: a Unix socket is reached through who knows which port.
    AnyPort,
}

pub(super) struct Gate {
    hosts: Hosts,
    token: String,
    cookie: String,
    /// The path below which the page is.
    path: String,
}

/// Somebody who was let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Guest {
    /// A page of ours.
    Page,
    /// A program that has said the token, or a browser that has been given the address.
    Token,
}

/// Somebody who was not: with what is to be said.
pub(super) type Refusal = (StatusCode, &'static str);

impl Gate {
    pub(super) fn new(hosts: Hosts) -> Self {
        let path = format!("/{}", &random()[..12]);
        Self { hosts, token: random(), cookie: random(), path }
    }

    /// What the address ends with by which this is entered.
    pub(super) fn entry(&self) -> String {
        format!("/?token={}", self.token)
    }

    /// The path of the page, without a slash after it.
    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// What is given to whoever has said the token.
    pub(super) fn set_cookie(&self) -> String {
        format!("{COOKIE}={}; Path={}/; HttpOnly; SameSite=Strict", self.cookie, self.path)
    }

    pub(super) fn admit(
        &self,
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
    ) -> Result<Guest, Refusal> {
        let host = only(headers, header::HOST).filter(|host| self.hosts.have(host));
        let host = host.filter(|host| uri.authority().is_none_or(|said| said.as_str() == *host));
        let Some(host) = host else {
            return Err((StatusCode::FORBIDDEN, "not the host of this page"));
        };
        let guest = self.known(uri, headers);
        let is_ours = |origin: &str| origin.strip_prefix("http://") == Some(host);
        let origin = headers.get_all(header::ORIGIN);
        let by_origin = origin.iter().all(|origin| origin.to_str().is_ok_and(is_ours));
        let site = headers.get_all("sec-fetch-site");
        let by_site = site.iter().all(|site| site == "same-origin" || site == "none");
        // Somebody has clicked on the address, wherever it stood: what is answered is for no page.
        let is_entry = *method == Method::GET
            && uri.path() == "/"
            && guest == Some(Guest::Token)
            && only(headers, "sec-fetch-mode") == Some("navigate")
            && only(headers, "sec-fetch-dest") == Some("document");
        if !(by_origin && by_site || is_entry) {
            return Err((StatusCode::FORBIDDEN, "another page may not ask this"));
        }
        let why = "open the address that 'navlock web' has printed, which has the token in it";
        let guest = guest.ok_or((StatusCode::UNAUTHORIZED, why))?;
        // What changes anything is for our page, which says so, or for who has said the token.
        let is_safe = [Method::GET, Method::HEAD].contains(method);
        if !is_safe && guest == Guest::Page && origin.iter().next().is_none() {
            return Err((StatusCode::FORBIDDEN, "only the page itself may ask this"));
        }
        Ok(guest)
    }

    fn known(&self, uri: &Uri, headers: &HeaderMap) -> Option<Guest> {
        let bearer = only(headers, header::AUTHORIZATION).and_then(|said| said.split_once(' '));
        let bearer = bearer.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
        let query = parameter(uri, "token");
        if [bearer.map(|(_, token)| token), query]
            .into_iter()
            .flatten()
            .any(|it| is(it, &self.token))
        {
            return Some(Guest::Token);
        }
        let cookies = headers.get_all(header::COOKIE).iter().filter_map(|all| all.to_str().ok());
        let mut ours = cookies
            .flat_map(|all| all.split(';'))
            .filter_map(|cookie| cookie.trim().strip_prefix(COOKIE)?.strip_prefix('='));
        ours.any(|cookie| is(cookie, &self.cookie)).then_some(Guest::Page)
    }
}

impl Hosts {
    fn have(&self, host: &str) -> bool {
        let (name, port) = match host.rsplit_once(':') {
            Some((name, port)) if !port.ends_with(']') => (name, Some(port)),
            _ => (host, None),
        };
        let is_here =
            ["127.0.0.1", "[::1]"].contains(&name) || name.eq_ignore_ascii_case("localhost");
        is_here
            && match (self, port) {
                (Self::AnyPort, port) => port.is_none_or(|port| port.parse::<u16>().is_ok()),
                // That of the scheme is not said.
                (Self::Port(80), None) => true,
                (Self::Port(ours), port) => port == Some(&*ours.to_string()),
            }
    }
}

/// A parameter of the query, which has no escapes in it.
pub(super) fn parameter<'a>(uri: &'a Uri, key: &str) -> Option<&'a str> {
    let mut parameters = uri.query().unwrap_or_default().split('&');
    parameters.find_map(|parameter| parameter.strip_prefix(key)?.strip_prefix('='))
}

/// The header, if there is one and not more.
fn only(headers: &HeaderMap, name: impl header::AsHeaderName) -> Option<&str> {
    let mut all = headers.get_all(name).iter();
    let one = all.next()?;
    if all.next().is_some() { None } else { one.to_str().ok() }
}

/// Whether they are the same, in a time that tells nothing of how far they are.
fn is(said: &str, secret: &str) -> bool {
    let differences = said.bytes().zip(secret.bytes()).fold(0, |all, (a, b)| all | (a ^ b));
    said.len() == secret.len() && differences == 0
}

/// 122 bits of the system's random numbers, as text.
fn random() -> String {
    format!("{:032x}", u128::from_be_bytes(navlock::ClientId::random().to_bytes()))
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderName;

    use super::*;

    const OURS: &str = "127.0.0.1:4000";

    fn admit(gate: &Gate, method: &Method, path: &str, all: &[(&str, &str)]) -> Result<Guest, u16> {
        let mut headers = HeaderMap::new();
        for (name, value) in all {
            headers.append(HeaderName::try_from(*name).unwrap(), value.parse().unwrap());
        }
        let uri = path.parse().unwrap();
        gate.admit(method, &uri, &headers).map_err(|(status, _)| status.as_u16())
    }

    #[test]
    fn only_names_of_this_machine_and_port_are_hosts() {
        let hosts = Hosts::Port(4000);
        for host in ["127.0.0.1:4000", "localhost:4000", "LocalHost:4000", "[::1]:4000"] {
            assert!(hosts.have(host), "{host}");
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
            assert!(!hosts.have(host), "{host}");
        }
        assert!(Hosts::Port(80).have("localhost") && Hosts::AnyPort.have("localhost"));
        assert!(Hosts::AnyPort.have("127.0.0.1:8080") && !Hosts::AnyPort.have("evil.example:8080"));
    }

    #[test]
    fn nobody_is_let_in_without_the_token_or_its_cookie() {
        let gate = Gate::new(Hosts::Port(4000));
        let get = |path: &str, all: &[(&str, &str)]| {
            admit(&gate, &Method::GET, path, &[&[("host", OURS)], all].concat())
        };
        assert_eq!(get("/", &[]), Err(401));
        assert_eq!(get(&format!("/?token={}", gate.cookie), &[]), Err(401));
        assert_eq!(get("/?token=", &[]), Err(401));
        assert_eq!(get(&gate.entry(), &[]), Ok(Guest::Token));
        let bearer = format!("Bearer {}", gate.token);
        assert_eq!(get("/metrics", &[("authorization", &bearer)]), Ok(Guest::Token));
        let cookie = format!("a=b; {COOKIE}={}", gate.cookie);
        assert_eq!(get("/metrics", &[("cookie", &cookie)]), Ok(Guest::Page));
        assert_eq!(get("/", &[("cookie", &format!("{COOKIE}={}", gate.token))]), Err(401));
        assert_eq!(admit(&gate, &Method::GET, &gate.entry(), &[]), Err(403));
        let two = [("host", OURS), ("host", "evil.example")];
        assert_eq!(admit(&gate, &Method::GET, &gate.entry(), &two), Err(403));
        let other = format!("http://evil.example{}", gate.entry());
        assert_eq!(get(&other, &[]), Err(403));
    }

    #[test]
    fn no_other_page_is_let_in_though_its_browser_has_the_cookie() {
        let gate = Gate::new(Hosts::Port(4000));
        let cookie = format!("{COOKIE}={}", gate.cookie);
        let ask = |method, all: &[(&str, &str)]| {
            let all = [&[("host", OURS), ("cookie", &cookie)], all].concat();
            admit(&gate, method, "/api/steal", &all)
        };
        let ours = format!("http://{OURS}");
        assert_eq!(ask(&Method::POST, &[("origin", &ours)]), Ok(Guest::Page));
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
        // To click on the address anywhere is to enter; to fetch it is not.
        let enter = |mode, dest| {
            let all = [
                ("host", OURS),
                ("sec-fetch-site", "cross-site"),
                ("sec-fetch-mode", mode),
                ("sec-fetch-dest", dest),
            ];
            admit(&gate, &Method::GET, &gate.entry(), &all)
        };
        assert_eq!(enter("navigate", "document"), Ok(Guest::Token));
        assert_eq!(enter("navigate", "iframe"), Err(403));
        assert_eq!(enter("no-cors", "image"), Err(403));
    }
}
