//! What may be wrong where etcd is not reached, for people.

use crate::options::EtcdOptions;

/// What is to be done about this failure, if that can be guessed.
pub(crate) fn hint(why: &str, options: &EtcdOptions) -> Option<&'static str> {
    let says = |sign: &&str| why.contains(*sign);
    if says(&"UnknownIssuer") {
        return Some(
            "nobody whom this system trusts has signed etcd's certificate: give the one who has as \
             certificate-authority, or the certificate itself if it is signed by nobody else, as \
             that of an etcd with --auto-tls (fixtures/client/cert.pem in its data directory)",
        );
    }
    if says(&"not valid for name") || says(&"NotValidForName") {
        return Some("give the name that is in etcd's certificate as server-name");
    }
    let is_silent = ["transport error", "canceled", "broken pipe", "closed"].iter().any(says);
    let is_secure = options.endpoints.iter().any(|endpoint| endpoint.starts_with("https://"));
    match (is_silent, is_secure) {
        (true, true) => {
            Some("if it is etcd, it may want a client certificate, or no TLS (http://)")
        }
        (true, false) => Some("if it is etcd, it may want TLS (https://)"),
        (false, _) => None,
    }
}
