//! Options: which etcd cluster to use, and how.

use std::{fmt, time::Duration};

use navlock_core::{Error, Refusal};
use navlock_machines::{
    credentials::{CredentialSource, Credentials},
    key_store::KeeperOptions,
};

/// The shortest time to live of a lease that etcd accepts as it is.
const SHORTEST: Duration = Duration::from_secs(2);

/// The shortest time between two pings of a server.
const PING: Duration = Duration::from_secs(10);

/// Which etcd to use, and how.
///
/// ```
/// use std::time::Duration;
///
/// use navlock::EtcdOptions;
///
/// let options = EtcdOptions::new(["10.0.0.1:2379", "10.0.0.2:2379"])
///     .namespace("my-company")
///     .time_to_live(Duration::from_secs(30)) // for how long others wait when this machine dies
///     .margin(Duration::from_secs(5)) // how much earlier its own holders are told
///     .keep_names(0); // ask etcd for each lock
/// # drop(options);
/// ```
#[derive(Clone)]
pub struct EtcdOptions {
    pub(crate) endpoints: Vec<String>,
    credentials: CredentialSource,
    #[cfg(feature = "tls")]
    server_name: Option<String>,
    pub(crate) keeper: KeeperOptions,
    pub(crate) follows_members: bool,
}

impl EtcdOptions {
    /// The etcd cluster with these endpoints: `host:port` or URLs. With more than one, locks can be
    /// taken while a member is down.
    pub fn new<E: Into<String>>(endpoints: impl IntoIterator<Item = E>) -> Self {
        Self {
            endpoints: endpoints.into_iter().map(Into::into).collect(),
            credentials: CredentialSource::default(),
            #[cfg(feature = "tls")]
            server_name: None,
            keeper: KeeperOptions::default(),
            follows_members: true,
        }
    }

    /// Logs in as this user. The user needs permission to read and write all keys that begin with
    /// the [namespace](Self::namespace) and a `/`.
    #[must_use]
    pub fn user(mut self, name: impl Into<String>, password: impl Into<String>) -> Self {
        let (name, password) = (name.into(), password.into());
        self.credentials.change(move |given| given.user(&*name, &*password));
        self
    }

    /// For how long etcd keeps an agent's locks after it has last heard of the connection. When a
    /// machine dies, others wait for this long. Etcd may also be away for this long before locks
    /// are lost. The time is at least 2 s, and is rounded up to whole seconds. It is 10 s if this
    /// is not called.
    #[must_use]
    pub fn time_to_live(mut self, time: Duration) -> Self {
        self.keeper.times.time_to_live = time.max(SHORTEST);
        self
    }

    /// How long it may take to connect; 5 s if this is not called. One call may also take this long before
    /// the member is asked whether it is there, and left for another one if it is not. But a call never takes
    /// longer than an eighth of the [time to live](Self::time_to_live), or half a second if that is more.
    #[must_use]
    pub fn timeout(mut self, time: Duration) -> Self {
        self.keeper.times.timeout = time.max(Duration::from_millis(10));
        self
    }

    /// The first part of all keys, before a `/`; `navlock` if this is not called. Programs with
    /// another namespace do not see these locks. Bytes other than letters, digits, `.`, `_`, `~`
    /// and `-` are spelled as `%` and two digits.
    #[must_use]
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.keeper.namespace = namespace.into();
        self
    }

    /// The margin: when etcd does not answer, a holder counts its locks as lost this long before
    /// others may be granted them. Within this time, the work under the locks has to end. The
    /// margin is at most half of the [time to live](Self::time_to_live), because leases are renewed
    /// within the other half. If this is not called, it is a fifth of the time to live, but no more
    /// than 2 s.
    ///
    /// The drift of clocks is added: 500 millionths of the time to live.
    #[must_use]
    pub fn margin(mut self, time: Duration) -> Self {
        self.keeper.times.margin = Some(time);
        self
    }

    /// Whether to use also members whose endpoints were not given, but which other members know. With them,
    /// all given members may be replaced in the course of time. Such members are used if this is not called,
    /// but only if a member advertises an endpoint that was given (`--advertise-client-urls`). So the
    /// endpoint of a proxy is used alone.
    #[must_use]
    pub fn follow_members(mut self, follows: bool) -> Self {
        self.follows_members = follows;
        self
    }

    /// How often in a row this connection has to take a name, while nobody else uses the name, before it
    /// owns the name. From then on, its agents take the name and hand it over without etcd. The first
    /// request for the name through another connection waits until the name is given up. The number then
    /// doubles for this name. The number is 8 if this is not called; with 0, the connection never owns a
    /// name.
    ///
    /// [Here](crate#who-asks-another-connection) you find what happens to such a request while this
    /// connection does not answer.
    #[must_use]
    pub fn keep_names(mut self, taken: u32) -> Self {
        self.keeper.taken = taken;
        self
    }

    /// Connects with these credentials, in place of those that were given to these options before.
    ///
    /// ```no_run
    /// use std::fs;
    ///
    /// use navlock::{Credentials, EtcdOptions};
    ///
    /// let credentials = Credentials::new()
    ///     .certificate_authority(fs::read("/etc/my-app/ca.pem")?)
    ///     .identity(fs::read("/etc/my-app/client.pem")?, fs::read("/etc/my-app/client.key")?);
    /// let options = EtcdOptions::new(["https://etcd.example.org:2379"]).credentials(credentials);
    /// # drop(options);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// For certificates and passwords that are valid for a short time only, a function takes their place. It is called
    /// whenever a connection is made, and again when a connection fails, on the thread that speaks to etcd, so it should
    /// not take long. If it fails, it returns the reason, which is an error or a text, and is called again later.
    ///
    /// ```
    /// use std::{fs, io};
    ///
    /// use navlock::{Credentials, EtcdOptions};
    ///
    /// // Something else writes a new password to this file every hour.
    /// let options = EtcdOptions::new(["10.0.0.1:2379"]).credentials(|| {
    ///     let password = fs::read_to_string("/run/secrets/etcd")?;
    ///     Ok::<_, io::Error>(Credentials::new().user("my-app", password.trim_end()))
    /// });
    /// # drop(options);
    /// ```
    #[must_use]
    pub fn credentials(mut self, source: impl Into<CredentialSource>) -> Self {
        self.credentials = source.into();
        self
    }

    /// Expects this name in the certificates of servers, instead of the name in their endpoints.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn server_name(mut self, name: impl Into<String>) -> Self {
        self.server_name = Some(name.into());
        self
    }

    /// The time to live in whole seconds, as etcd counts it.
    pub(crate) fn seconds(&self) -> i64 {
        let time = self.keeper.times.time_to_live;
        let up = time.as_secs() + u64::from(time.subsec_nanos() > 0);
        i64::try_from(up).unwrap_or(i64::MAX).max(2)
    }

    /// # Errors
    ///
    /// [`Error::Refused`] if there is no endpoint, if this build cannot use an endpoint, if the
    /// margin does not fit into the time to live, or if there are no credentials.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.endpoints.is_empty() {
            return Err(Error::refused("no etcd endpoint was given; give host:port"));
        }
        self.keeper.times.check()?;
        let credentials = self.credentials_now().map_err(Error::Refused)?;
        if credentials.get_password().is_some() && credentials.get_user().is_none() {
            return Err(Error::refused("there is a password, but no user of it; give both"));
        }
        let https = self.endpoints.iter().find(|endpoint| endpoint.starts_with("https://"));
        let has_certificates = credentials.get_certificate_authority().is_some()
            || credentials.get_identity().is_some();
        match https {
            Some(endpoint) if !cfg!(feature = "tls") => Err(Error::refused(format!(
                "{endpoint} needs TLS, which this build does not have; \
                 build navlock with the feature `tls`"
            ))),
            None if has_certificates => Err(Error::refused(
                "there are certificates, but no endpoint begins with https://; write https:// or leave them out",
            )),
            _ => Ok(()),
        }
    }

    /// The credentials to connect with now.
    ///
    /// # Errors
    ///
    /// Why the source has no credentials.
    pub(crate) fn credentials_now(&self) -> Result<Credentials, Refusal> {
        self.credentials.now()
    }

    /// The options of a connection with these credentials.
    pub(crate) fn client(&self, credentials: &Credentials) -> navlock_etcd_client::ConnectOptions {
        let options = self.client_without_user(credentials);
        match (credentials.get_user(), credentials.get_password()) {
            (Some(name), Some(password)) => options.with_user(name, password),
            _ => options,
        }
    }

    #[cfg_attr(not(feature = "tls"), expect(unused_variables, reason = "they are of TLS"))]
    pub(crate) fn client_without_user(
        &self,
        credentials: &Credentials,
    ) -> navlock_etcd_client::ConnectOptions {
        let options = navlock_etcd_client::ConnectOptions::new()
            .with_connect_timeout(self.keeper.times.call())
            // Each call notices by itself if a server has silently gone, and connects anew, so a
            // few pings are enough. Etcd hangs up on clients that ping more often than every 5 s,
            // or that ping without a call.
            .with_keep_alive(PING.max(self.keeper.times.time_to_live / 8), self.keeper.times.call())
            .with_keep_alive_while_idle(false)
            .with_require_leader(true);
        #[cfg(feature = "tls")]
        if self.endpoints.iter().any(|endpoint| endpoint.starts_with("https://")) {
            let mut tls = navlock_etcd_client::TlsOptions::new().with_native_roots();
            if let Some(pem) = credentials.get_certificate_authority() {
                tls = tls.ca_certificate(navlock_etcd_client::Certificate::from_pem(pem));
            }
            if let Some((certificate, key)) = credentials.get_identity() {
                tls = tls.identity(navlock_etcd_client::Identity::from_pem(certificate, key));
            }
            if let Some(name) = &self.server_name {
                tls = tls.domain_name(name);
            }
            return options.with_tls(tls);
        }
        options
    }
}

/// Does not show the password.
impl fmt::Debug for EtcdOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EtcdOptions")
            .field("endpoints", &self.endpoints)
            .field("credentials", &self.credentials)
            .field("times", &self.keeper.times)
            .field("namespace", &self.keeper.namespace)
            .finish_non_exhaustive()
    }
}
