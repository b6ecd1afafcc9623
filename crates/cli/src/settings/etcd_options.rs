//! How to speak to an etcd: the settings of a store, in the form that etcd's client takes.

use std::path::Path;

use navlock::Refusal;
use navlock_etcd::EtcdOptions;

use super::{
    credential_files::CredentialFiles,
    endpoints::is_https,
    error::of_value,
    file::StoreTable,
    shared::{Times, times},
};

/// The options of connections to these endpoints, by the settings of a store in this file. `of_file` names both for
/// people.
pub(super) fn options(
    endpoints: &[String],
    store: &StoreTable,
    file: Option<&Path>,
    of_file: &str,
) -> Result<EtcdOptions, Refusal> {
    let wrong = |what: &str| of_value(of_file, what);
    match (&store.user, &store.password_file) {
        (Some(_), None) => return Err(wrong("there is a user, but no password-file; add one")),
        (None, Some(_)) => return Err(wrong("there is a password-file, but no user; add one")),
        _ => {}
    }
    let files = CredentialFiles::new(store, file, of_file)?;
    if (files.are_for_tls() || store.server_name.is_some())
        && !endpoints.iter().any(|one| is_https(one))
    {
        return Err(wrong("there are settings for TLS, but no endpoint begins with https://"));
    }
    let mut options = EtcdOptions::new(endpoints.iter().cloned()).credentials(files.source()?);
    let Times { time_to_live, margin } = times(store).map_err(|what| wrong(&what))?;
    if let Some(time) = time_to_live {
        options = options.time_to_live(time);
    }
    if let Some(margin) = margin {
        options = options.margin(margin);
    }
    if let Some(follows) = store.follow_members {
        options = options.follow_members(follows);
    }
    if let Some(namespace) = &store.namespace {
        options = options.namespace(namespace);
    }
    if let Some(taken) = store.keep_names {
        options = options.keep_names(taken);
    }
    #[cfg(feature = "tls")]
    if let Some(name) = &store.server_name {
        options = options.server_name(name);
    }
    Ok(options)
}

#[cfg(test)]
#[cfg(unix)]
mod tests;
