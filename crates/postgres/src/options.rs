//! Options: which PostgreSQL to use, and how.

use std::{fmt, time::Duration};

use navlock_core::{Error, Refusal};
use navlock_machines::{credentials::CredentialSource, key_store::KeeperOptions};
use tokio_postgres::Config;

use crate::{servers::Servers, trust::trust};

/// How long nothing may be said on a connection before the other side is asked whether it is there.
const QUIET: Duration = Duration::from_secs(15);

/// How many letters the name of the schema may have: it is a part of the name of a channel, which has 63.
const MOST_LETTERS: usize = 40;

/// The shortest time to live of a lease.
const SHORTEST: Duration = Duration::from_secs(2);

/// Which PostgreSQL to use, and how.
///
/// ```
/// use std::time::Duration;
///
/// use navlock::PostgresOptions;
///
/// let options = PostgresOptions::new("postgres://ci@db.example.org/navlock")
///     .time_to_live(Duration::from_secs(30)) // for how long others wait when this machine dies
///     .margin(Duration::from_secs(5)) // how much earlier its own holders are told
///     .keep_names(0); // ask PostgreSQL for each lock
/// # drop(options);
/// ```
#[derive(Clone)]
pub struct PostgresOptions {
    url: String,
    listen_url: Option<String>,
    credentials: CredentialSource,
    schema: String,
    pub(crate) keeper: KeeperOptions,
}

impl PostgresOptions {
    /// The database with this URL (`postgres://user@host:port/database`), or with these keywords and values
    /// (`host=… dbname=…`), as libpq has them.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            listen_url: None,
            credentials: CredentialSource::default(),
            schema: "navlock".to_owned(),
            keeper: KeeperOptions::default(),
        }
    }

    /// A URL of the same database that leads there directly. `LISTEN` needs a session, so where the other URL
    /// is that of a pooler in transaction mode, nobody is notified through it, and a machine asks for news a
    /// hundred times a second at most while something waits.
    #[must_use]
    pub fn listen_url(mut self, url: impl Into<String>) -> Self {
        self.listen_url = Some(url.into());
        self
    }

    /// The password, in place of one in the URLs.
    #[must_use]
    pub fn password(mut self, password: impl Into<String>) -> Self {
        let password = password.into();
        self.credentials.change(move |given| given.password(&*password));
        self
    }

    /// Connects with these credentials, in place of those that were given to these options before.
    ///
    /// Without a certificate's authority, `sslmode=verify-full` in the URL trusts the authorities that the system trusts.
    /// With other modes the connection is encrypted if the server can do that, or has to be (`require`), and any
    /// certificate is good.
    ///
    /// For certificates and passwords that are valid for a short time only, a function takes the place of the
    /// credentials. It is called whenever a connection is made, on the thread that speaks to PostgreSQL, so it should not
    /// take long. If it fails, it returns the reason, which is an error or a text, and is called again later.
    #[must_use]
    pub fn credentials(mut self, source: impl Into<CredentialSource>) -> Self {
        self.credentials = source.into();
        self
    }

    /// The schema in which the functions of navlock are; `navlock` if this is not called. Programs with
    /// another schema do not see these locks.
    #[must_use]
    pub fn schema(mut self, schema: impl Into<String>) -> Self {
        self.schema = schema.into();
        self
    }

    /// For how long an agent's locks are kept after PostgreSQL has last heard of the connection. When a
    /// machine dies, others wait for this long. PostgreSQL may also be away for this long before locks are
    /// lost. The time is at least 2 s. It is 10 s if this is not called.
    #[must_use]
    pub fn time_to_live(mut self, time: Duration) -> Self {
        self.keeper.times.time_to_live = time.max(SHORTEST);
        self
    }

    /// How long it may take to connect; 5 s if this is not called. A call is late after an eighth
    /// of the [time to live](Self::time_to_live), or half a second if that is more, and given up after three times as long.
    #[must_use]
    pub fn timeout(mut self, time: Duration) -> Self {
        self.keeper.times.timeout = time.max(Duration::from_millis(10));
        self
    }

    /// The margin: when PostgreSQL does not answer, a holder counts its locks as lost this long before
    /// others may be granted them. Within this time, the work under the locks has to end. The
    /// margin is at most half of the [time to live](Self::time_to_live). If this is not called, it is a fifth
    /// of the time to live, but no more than 2 s.
    ///
    /// The drift of clocks is added: 500 millionths of the time to live.
    #[must_use]
    pub fn margin(mut self, time: Duration) -> Self {
        self.keeper.times.margin = Some(time);
        self
    }

    /// How often in a row this connection has to take a name, while nobody else uses the name, before it
    /// owns the name. From then on, its agents take the name and hand it over without PostgreSQL. The first
    /// request for the name through another connection waits until the name is given up. The number then
    /// doubles for this name. The number is 8 if this is not called; with 0, the connection never owns a
    /// name.
    #[must_use]
    pub fn keep_names(mut self, taken: u32) -> Self {
        self.keeper.taken = taken;
        self
    }

    /// Whether a URL has a password.
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] if the options cannot be used.
    pub fn has_password(&self) -> Result<bool, Error> {
        let both = [self.servers()?, self.listen_servers()?];
        Ok(both.iter().any(|servers| servers.config.get_password().is_some()))
    }

    /// The schema.
    #[must_use]
    pub fn schema_name(&self) -> &str {
        &self.schema
    }

    /// Checks the options without connecting, and reads the credentials.
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] if the options cannot be used, or not by this build.
    pub fn check(&self) -> Result<(), Error> {
        for servers in [self.servers()?, self.listen_servers()?] {
            servers.now().map_err(Error::Refused)?;
        }
        Ok(())
    }

    /// Where the database is, for people: `host:port/database`, without users and passwords.
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] if the options cannot be used.
    pub fn address(&self) -> Result<String, Error> {
        self.listen_servers()?;
        Ok(self.servers()?.address())
    }

    /// The servers for calls.
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] if the options cannot be used.
    pub(crate) fn servers(&self) -> Result<Servers, Error> {
        self.keeper.times.check()?;
        let is_plain =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        let is_name = self.schema.bytes().all(is_plain)
            && !self.schema.starts_with(|first: char| first.is_ascii_digit());
        if !is_name || self.schema.is_empty() || self.schema.len() > MOST_LETTERS {
            return Err(Error::refused(format!(
                "{:?} cannot be the schema: give up to {MOST_LETTERS} small letters, digits and _, a letter first",
                self.schema
            )));
        }
        self.parse(&self.url)
    }

    /// The servers to listen to.
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] if the URL cannot be used.
    pub(crate) fn listen_servers(&self) -> Result<Servers, Error> {
        let servers = self.parse(self.listen_url.as_deref().unwrap_or(&self.url))?;
        Ok(servers.trusting_as(&self.parse(&self.url)?))
    }

    fn parse(&self, url: &str) -> Result<Servers, Error> {
        let wrong = |what: &str| {
            Refusal::new(format!(
                "this is no URL of a PostgreSQL ({what}); give postgres://user@host/database"
            ))
        };
        // Another URL would be taken for keywords, and the error would repeat what may be a password. So it is no
        // cause of ours either.
        let is_url = ["postgres://", "postgresql://"].iter().any(|scheme| url.starts_with(scheme));
        if url.contains("://") && !is_url {
            return Err(wrong("it begins otherwise").into());
        }
        let (url, trust) = trust(url)?;
        let parsed = url.parse();
        let mut config: Config =
            parsed.map_err(|error: tokio_postgres::Error| wrong(&error.to_string()))?;
        if config.get_hosts().is_empty() {
            return Err(wrong("it names no host").into());
        }
        // Each of several servers is tried in time.
        let servers = u32::try_from(config.get_hosts().len()).unwrap_or(1).max(1);
        config.connect_timeout(self.keeper.times.call() / servers);
        // What lies between may forget a connection on which nothing is said.
        config.tcp_user_timeout(self.keeper.times.call());
        config.keepalives_idle(QUIET).keepalives_interval(QUIET / 3).keepalives_retries(3);
        if config.get_application_name().is_none() {
            config.application_name("navlock");
        }
        Ok(Servers { config, trust, credentials: self.credentials.clone() })
    }
}

/// Does not show the password.
impl fmt::Debug for PostgresOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresOptions")
            .field("schema", &self.schema)
            .field("keeper", &self.keeper)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use tokio_postgres::config::{ChannelBinding, SslMode};

    use super::*;
    use crate::trust::Trust;

    #[test]
    fn an_address_and_an_error_show_no_password() {
        let address =
            |url: &str| PostgresOptions::new(url).address().map_err(|error| error.to_string());
        for (url, shown) in [
            ("postgres://ada:s3cret@db.example/locks", "db.example:5432/locks"),
            ("postgresql://ada:s3cret@a:1,b:2/locks", "a:1,b:2/locks"),
            ("host=db user=ada password=s3cret", "db:5432/ada"),
        ] {
            assert_eq!(address(url).as_deref(), Ok(shown));
        }
        for url in [
            "https://ada:s3cret@db?x=1",
            "s3cret",
            "postgres://ada:s3cret@db:port/locks",
            "postgres:///locks?password=s3cret",
        ] {
            let said = address(url).unwrap_err();
            assert!(said.contains("give postgres://") && !said.contains("s3cret"), "{said}");
        }
        let wrong = "postgress://ada:s3cret@db/locks?sslmode=disable";
        let error = PostgresOptions::new(wrong).address().unwrap_err();
        assert!(!format!("{error:?}").contains("s3cret"), "{error:?}");
        let said = address("postgres://db/locks?sslrootcert=/etc/ca.pem").unwrap_err();
        assert!(said.contains("is not read from a URL"), "{said}");
        let wrong = PostgresOptions::new("postgres://db").schema("A b").address().unwrap_err();
        assert!(wrong.to_string().contains("cannot be the schema"), "{wrong}");
    }

    #[test]
    fn whoever_is_listened_to_is_trusted_no_more() {
        let of = |url: &str, listen: &str| {
            let options = PostgresOptions::new(format!("postgres://a/b?{url}"));
            let servers = options.listen_url(format!("postgres://c/b?{listen}"));
            let Servers { config, trust, .. } = servers.listen_servers().unwrap();
            (config.get_ssl_mode(), config.get_channel_binding(), trust)
        };
        let (_, binding, trust) = of("sslmode=verify-full&channel_binding=require", "");
        assert_eq!((binding, trust), (ChannelBinding::Require, Trust::Named));
        assert_eq!(of("sslmode=require", "").0, SslMode::Require);
        assert_eq!(of("", "sslmode=verify-full").2, Trust::Named);
        // That is what somebody has written.
        assert_eq!(of("sslmode=require", "sslmode=disable").0, SslMode::Disable);
    }
}
