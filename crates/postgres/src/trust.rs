//! Whom a connection trusts, by the `sslmode` of `libpq`.

/// Which servers are spoken to, if they are encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trust {
    /// Whoever is there, as with `sslmode=require`.
    Anybody,
    /// Those with a certificate of an authority, as with `sslmode=verify-ca`.
    Signed,
    /// Those with a certificate for their own name, as with `sslmode=verify-full`.
    Named,
}

/// The URL with a mode that the parser knows, and whom it trusts.
pub(crate) fn trust(url: &str) -> (String, Trust) {
    for (mode, trust) in [("verify-full", Trust::Named), ("verify-ca", Trust::Signed)] {
        let asked = format!("sslmode={mode}");
        if url.contains(&asked) {
            return (url.replace(&asked, "sslmode=require"), trust);
        }
    }
    (url.to_owned(), Trust::Anybody)
}
