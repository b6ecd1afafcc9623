//! The endpoints of an etcd.

/// Checks each endpoint, and that there is one.
pub(super) fn endpoints(given: &[String]) -> Result<Vec<String>, String> {
    if given.is_empty() {
        return Err(
            "no endpoints of etcd; write etcd = [\"host:2379\"] there, or postgres = with a URL"
                .to_owned(),
        );
    }
    given.iter().map(|text| endpoint(text.trim())).collect()
}

/// An endpoint, if it can be one.
fn endpoint(text: &str) -> Result<String, String> {
    let rest = text.strip_prefix("https://").or(text.strip_prefix("http://")).unwrap_or(text);
    let authority = rest.strip_suffix('/').unwrap_or(rest);
    let port = authority.rsplit_once(':').filter(|(host, _)| !host.is_empty());
    let port = port.and_then(|(_, port)| port.parse::<u16>().ok());
    if port.is_none() || authority.contains(['/', '@', ' ', '=', ';']) {
        // The part before an `@` is not shown, because it may contain a password.
        let shown = text.rsplit('@').next().unwrap_or_default();
        return Err(format!(
            "{shown:?} is no endpoint of etcd; give host:port, http://host:port or \
             https://host:port"
        ));
    }
    Ok(text.to_owned())
}

pub(super) fn is_https(endpoint: &str) -> bool {
    endpoint.starts_with("https://")
}
