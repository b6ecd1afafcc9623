//! The etcd of a broker: the settings for it, in a form that can be used.

use std::{fmt, path::Path};

use navlock::Refusal;

#[cfg(feature = "etcd")]
use super::etcd_options;
use super::{
    endpoints::{endpoints, is_https},
    error::of_value,
    file::StoreTable,
    given::Given,
    unable::unable,
};

/// An etcd, and how to speak to it.
pub(crate) struct Etcd {
    /// Where this setting comes from, for people: an option, a variable, or a file.
    pub(crate) origin: String,
    /// At least one.
    pub(crate) endpoints: Vec<String>,
    pub(crate) namespace: Option<String>,
    #[cfg(feature = "etcd")]
    pub(crate) has_password: bool,
    #[cfg(feature = "etcd")]
    pub(crate) options: navlock_etcd::EtcdOptions,
}

impl Etcd {
    /// Checks the settings of an etcd. Endpoints that were `given` replace those of the store. All other
    /// settings are those of the store in this file. `of_file` names both for people.
    #[cfg_attr(not(feature = "etcd"), expect(unused_variables, reason = "only etcd needs files"))]
    pub(super) fn new(
        given: Option<&Given<'_>>,
        store: &StoreTable,
        file: Option<&Path>,
        of_file: &str,
    ) -> Result<Self, Refusal> {
        let origin = given.map_or(of_file, |given| given.origin).to_owned();
        let given = given.map(|given| given.text.split(',').map(str::to_owned).collect());
        let endpoints = endpoints(&given.or(store.etcd.clone()).unwrap_or_default());
        let endpoints = endpoints.map_err(|wrong| of_value(&origin, wrong))?;
        if cfg!(all(feature = "etcd", not(feature = "tls")))
            && endpoints.iter().any(|one| is_https(one))
        {
            let what = format!("the etcd at {}", endpoints.join(", "));
            return Err(unable(&origin, &what, "TLS, which https:// needs", "etcd,tls"));
        }
        Ok(Self {
            namespace: store.namespace.clone(),
            #[cfg(feature = "etcd")]
            has_password: store.password_file.is_some(),
            #[cfg(feature = "etcd")]
            options: etcd_options::options(&endpoints, store, file, of_file)?,
            origin,
            endpoints,
        })
    }

    /// The error for settings that name an etcd, in a program that was built without etcd.
    #[cfg(not(feature = "etcd"))]
    pub(crate) fn unusable(&self) -> Refusal {
        unable(&self.origin, &format!("the etcd at {self}"), "etcd", "etcd")
    }
}

/// Where the etcd is, for people.
impl fmt::Display for Etcd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.endpoints.join(", "))
    }
}
