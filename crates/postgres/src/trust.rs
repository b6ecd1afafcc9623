//! Whom a connection trusts, by the `sslmode` of `libpq`.

use navlock_core::Refusal;

/// Which servers are spoken to, if they are encrypted: the later, the fewer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Trust {
    /// Whoever is there, as with `sslmode=require`.
    Anybody,
    /// Those with a certificate of an authority, as with `sslmode=verify-ca`.
    Signed,
    /// Those with a certificate for their own name, as with `sslmode=verify-full`.
    Named,
}

/// The URL, or the keywords and values, with a mode that the driver knows, and whom it trusts.
///
/// # Errors
///
/// If the files of certificates are named there.
pub(crate) fn trust(url: &str) -> Result<(String, Trust), Refusal> {
    // Where the parameters are. Only a password may have a `?` before them, and it stands before an `@`.
    let begin = if url.contains("://") {
        let host = url.find('@').unwrap_or(0);
        url[host..].find('?').map_or(url.len(), |at| host + at + 1)
    } else {
        0
    };
    let (before, parameters) = url.split_at(begin);
    let mut trust = Trust::Anybody;
    let mut known = before.to_owned();
    for part in parameters.split_inclusive(|c: char| c == '&' || c.is_whitespace()) {
        let word = part.trim_end_matches(|c: char| c == '&' || c.is_whitespace());
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        trust = match (key, value) {
            ("sslmode", "verify-full") => Trust::Named,
            ("sslmode", "verify-ca") => Trust::Signed,
            ("sslmode", _) => Trust::Anybody,
            ("sslrootcert" | "sslcert" | "sslkey", _) => {
                return Err(Refusal::new(format!(
                    "{key} is not read from a URL; give certificate-authority, certificate and key in the store's \
                     settings, or name an authority of the whole system in SSL_CERT_FILE"
                )));
            }
            _ => {
                known.push_str(part);
                continue;
            }
        };
        let is_checked = trust != Trust::Anybody;
        known.push_str(&if is_checked { part.replace(value, "require") } else { part.to_owned() });
    }
    Ok((known, trust))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_parameter_says_whom_to_trust() {
        for (url, known, whom) in [
            ("postgres://a/b", "postgres://a/b", Trust::Anybody),
            ("postgres://a/b?sslmode=require", "postgres://a/b?sslmode=require", Trust::Anybody),
            (
                "postgres://u:sslmode=verify-ca?sslkey=@a/b?x=1&sslmode=verify-full&y=2",
                "postgres://u:sslmode=verify-ca?sslkey=@a/b?x=1&sslmode=require&y=2",
                Trust::Named,
            ),
            ("postgres://sslcert/sslkey", "postgres://sslcert/sslkey", Trust::Anybody),
            ("host=a sslmode=verify-ca user=u", "host=a sslmode=require user=u", Trust::Signed),
            (
                "postgres://a/b?application_name=sslmode=verify-ca",
                "postgres://a/b?application_name=sslmode=verify-ca",
                Trust::Anybody,
            ),
        ] {
            assert_eq!(trust(url).unwrap(), (known.to_owned(), whom), "{url}");
        }
        for url in ["postgres://a/b?sslrootcert=ca.pem", "host=a sslkey=k"] {
            assert!(
                trust(url).unwrap_err().to_string().contains("is not read from a URL"),
                "{url}"
            );
        }
    }
}
