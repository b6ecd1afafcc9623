//! Hints for people whose etcd cannot be reached.

use crate::options::EtcdOptions;

/// What a person can do about this failure, if that can be guessed.
pub(crate) fn hint(why: &str, options: &EtcdOptions) -> Option<&'static str> {
    let says = |sign: &&str| why.contains(*sign);
    if says(&"UnknownIssuer") {
        return Some(
            "nobody whom this system trusts has signed etcd's certificate: give the one who has as \
             certificate-authority, or the certificate itself if it is signed by nobody else",
        );
    }
    // One cause is that our TLS library does not support the elliptic curve P-521.
    if says(&"HandshakeFailure") {
        return Some(
            "etcd has no certificate that can be used here, as one that it has made by --auto-tls \
             cannot (its key is of P-521): start it with --cert-file and --key-file of another kind, \
             and give who has signed that as certificate-authority",
        );
    }
    if says(&"not valid for name") || says(&"NotValidForName") {
        return Some("give the name that is in etcd's certificate as server-name");
    }
    if says(&"is not etcd") {
        return Some("mend the endpoint; a proxy on the way there has to pass gRPC (HTTP/2) on");
    }
    let is_silent = ["transport error", "canceled", "broken pipe", "closed"].iter().any(says);
    let is_secure = options.endpoints.iter().any(|endpoint| endpoint.starts_with("https://"));
    match (is_silent, is_secure) {
        (true, true) => Some(
            "if it is etcd, it may want a client certificate, or no TLS (http://); else mend the \
                 endpoint",
        ),
        (true, false) => Some("if it is etcd, it may want TLS (https://); else mend the endpoint"),
        (false, _) => None,
    }
}
