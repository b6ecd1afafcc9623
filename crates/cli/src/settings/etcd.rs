//! The etcd of a broker: the settings for it, in a form that can be used.

use std::{env, fmt, path::Path};

use navlock::Refusal;

#[cfg(feature = "etcd")]
use super::etcd_options;
use super::{
    endpoints::{endpoints, is_https},
    error::of_value,
    file::Store,
};

/// The variable that names the endpoints of an etcd.
pub(super) const VARIABLE: &str = "NAVLOCK_ETCD";

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
    /// settings are those of the store, which has this name in this file.
    pub(super) fn new(
        given: Option<&str>,
        store: &Store,
        of: Option<(&Path, &str)>,
    ) -> Result<Self, Refusal> {
        let of_file = of.map_or_else(String::new, |(file, store)| {
            format!("{}, [stores.{store}]", file.display())
        });
        let origin = match given {
            Some(given) if env::var_os(VARIABLE).is_some_and(|text| text == given) => {
                VARIABLE.to_owned()
            }
            Some(_) => "--etcd".to_owned(),
            None => of_file.clone(),
        };
        let given = given.map(|given| given.split(',').map(str::to_owned).collect());
        let endpoints = endpoints(&given.or(store.etcd.clone()).unwrap_or_default());
        let endpoints = endpoints.map_err(|wrong| of_value(&origin, wrong))?;
        if cfg!(all(feature = "etcd", not(feature = "etcd-tls")))
            && endpoints.iter().any(|one| is_https(one))
        {
            return Err(unable(&origin, &endpoints, "TLS, which https:// needs", "etcd-tls"));
        }
        Ok(Self {
            namespace: store.namespace.clone(),
            #[cfg(feature = "etcd")]
            has_password: store.password_file.is_some(),
            #[cfg(feature = "etcd")]
            options: etcd_options::options(&endpoints, store, of.map(|(file, _)| file), &of_file)?,
            origin,
            endpoints,
        })
    }

    /// The error for settings that name an etcd, in a program that was built without etcd.
    #[cfg(not(feature = "etcd"))]
    pub(crate) fn unusable(&self) -> Refusal {
        unable(&self.origin, &self.endpoints, "etcd", "etcd")
    }
}

/// The error for settings that need a feature that this program was built without.
fn unable(origin: &str, endpoints: &[String], without: &str, feature: &str) -> Refusal {
    Refusal::new(format!(
        "{origin} names the etcd at {}, and this navlock was built without {without}; build it with \
         'cargo install --path crates/cli --features {feature}'",
        endpoints.join(", ")
    ))
}

/// Where the etcd is, for people.
impl fmt::Display for Etcd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.endpoints.join(", "))
    }
}
