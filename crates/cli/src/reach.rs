//! Where a broker's locks are seen: on this machine, or on all machines that use one etcd.

use navlock::UserAgent;

#[cfg(feature = "etcd")]
use crate::settings::Cluster;
use crate::settings::Etcd;

/// The user agent of a broker that uses this etcd.
///
/// # Errors
///
/// Why there is no user agent: etcd does not answer or refuses, or this program cannot speak to it.
#[cfg(feature = "etcd")]
pub(crate) fn connect(etcd: &Etcd) -> Result<UserAgent, String> {
    use navlock::blocking::block_on;

    let connected = match each(etcd)? {
        Each::One(options) => block_on(navlock_etcd::etcd(*options)),
        Each::Several(clusters) => block_on(navlock_etcd::etcd_clusters(clusters)),
    };
    connected.map_err(|error| {
        let origin = &etcd.origin;
        format!("{error} (it is the etcd of {origin}; 'navlock doctor' says what is wrong)")
    })
}

#[cfg(not(feature = "etcd"))]
pub(crate) fn connect(etcd: &Etcd) -> Result<UserAgent, String> {
    Err(unable(etcd, "etcd", "etcd"))
}

/// One cluster, or several that share the names.
#[cfg(feature = "etcd")]
pub(crate) enum Each {
    One(Box<navlock_etcd::EtcdOptions>),
    Several(navlock_etcd::EtcdClusters),
}

/// The options for all clusters.
#[cfg(feature = "etcd")]
pub(crate) fn each(etcd: &Etcd) -> Result<Each, String> {
    let mut clusters = navlock_etcd::EtcdClusters::new();
    for cluster in &etcd.clusters {
        let options = options(etcd, cluster)?;
        clusters = match &cluster.name {
            None => return Ok(Each::One(Box::new(options))),
            Some(name) if cluster.is_retired => clusters.retired(name, options),
            Some(name) => clusters.cluster(name, options),
        };
    }
    Ok(Each::Several(clusters))
}

/// The options for one cluster.
#[cfg(feature = "etcd")]
pub(crate) fn options(etcd: &Etcd, cluster: &Cluster) -> Result<navlock_etcd::EtcdOptions, String> {
    let is_https = |endpoint: &String| endpoint.starts_with("https://");
    if cfg!(not(feature = "etcd-tls")) && etcd.endpoints().any(is_https) {
        return Err(unable(etcd, "TLS, which https:// needs", "etcd-tls"));
    }
    let mut options = navlock_etcd::EtcdOptions::new(cluster.endpoints.iter().cloned());
    if let Some(follows) = etcd.follow_members {
        options = options.follow_members(follows);
    }
    if let Some(namespace) = &etcd.namespace {
        options = options.namespace(namespace);
    }
    let files = etcd.files.clone();
    options = options.credentials(move || files.read().map(credentials));
    if let Some(time) = etcd.time_to_live {
        options = options.time_to_live(time);
    }
    if let Some(margin) = etcd.margin {
        options = options.margin(margin);
    }
    if let Some(waits) = etcd.wait_through_outages {
        options = options.wait_through_outages(waits);
    }
    if let Some(taken) = etcd.keep_names {
        options = options.keep_names(taken);
    }
    #[cfg(feature = "etcd-tls")]
    if let Some(name) = &etcd.server_name {
        options = options.server_name(name);
    }
    Ok(options)
}

/// The contents of the files of the settings, in the form that etcd's client takes.
#[cfg(feature = "etcd")]
fn credentials(secrets: crate::settings::Secrets) -> navlock_etcd::Credentials {
    let mut credentials = navlock_etcd::Credentials::new();
    if let Some((name, password)) = secrets.user {
        credentials = credentials.user(name, password);
    }
    #[cfg(feature = "etcd-tls")]
    {
        if let Some(pem) = secrets.certificate_authority {
            credentials = credentials.certificate_authority(pem);
        }
        if let Some((certificate, key)) = secrets.identity {
            credentials = credentials.identity(certificate, key);
        }
    }
    credentials
}

/// The error for settings that need a feature that this program was built without.
fn unable(etcd: &Etcd, without: &str, feature: &str) -> String {
    format!(
        "{} names the etcd at {etcd}, and this navlock was built without {without}; build it with \
         'cargo install --path crates/cli --features {feature}'",
        etcd.origin
    )
}
