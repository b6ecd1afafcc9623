//! The etcd of a broker: the settings for it, in a form that can be used.

use std::{
    env, fmt,
    path::{Path, PathBuf},
    time::Duration,
};

use navlock::{Refusal, host::seconds};

use super::{error::of_value, file::Store, named_file};

/// The variable that names the endpoints of an etcd.
pub(super) const VARIABLE: &str = "NAVLOCK_ETCD";

/// The shortest time to live. If it were shorter, no other broker could replace a killed one in
/// time to keep its locks.
const SHORTEST: Duration = Duration::from_secs(5);

/// The time to live that the etcd side uses, if none is set.
const TIME_TO_LIVE: Duration = Duration::from_secs(10);

/// The smallest margin. In less time, a process on a busy machine does not end.
const LEAST_MARGIN: Duration = Duration::from_millis(500);

/// The longest time to live. If it were longer, nobody could have the locks of a machine that died
/// for more than a day.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// An etcd, and how to speak to it.
#[cfg_attr(
    not(feature = "etcd-tls"),
    expect(dead_code, reason = "it is read, so that what is wrong is said by every build")
)]
pub(crate) struct Etcd {
    /// Where this setting comes from, for people: an option, a variable, or a file.
    pub(crate) origin: String,
    /// At least one.
    pub(crate) endpoints: Vec<String>,
    pub(crate) follow_members: Option<bool>,
    pub(crate) namespace: Option<String>,
    pub(crate) time_to_live: Option<Duration>,
    pub(crate) margin: Option<Duration>,
    /// How often a name has to be taken before it is owned.
    pub(crate) keep_names: Option<u32>,
    pub(crate) files: Files,
    pub(crate) server_name: Option<String>,
}

/// The files that are read again for each connection to etcd, because their contents may be valid
/// for a short time only.
#[derive(Clone)]
pub(crate) struct Files {
    /// The file of settings, for people.
    of_file: String,
    /// A name, and the file of the password.
    pub(crate) user: Option<(String, PathBuf)>,
    certificate_authority: Option<PathBuf>,
    /// The certificate and its key.
    identity: Option<(PathBuf, PathBuf)>,
}

/// The contents of the files.
#[cfg_attr(
    not(any(feature = "etcd", test)),
    expect(dead_code, reason = "it is read, so that what is wrong is said by every build")
)]
pub(crate) struct Secrets {
    pub(crate) user: Option<(String, String)>,
    /// The certificate of the authority, in PEM.
    pub(crate) certificate_authority: Option<Vec<u8>>,
    /// The certificate and its key, in PEM.
    pub(crate) identity: Option<(Vec<u8>, Vec<u8>)>,
}

impl Files {
    /// # Errors
    ///
    /// Which file is wrong, and what is wrong with it.
    pub(crate) fn read(&self) -> Result<Secrets, Refusal> {
        let failed = |error: Refusal| {
            let what = format!("{}: {}", self.of_file, error.message());
            error.with_message(what)
        };
        let secret = |file: &PathBuf| named_file::read_secret(file).map_err(failed);
        let public = |file: &PathBuf| named_file::read(file).map_err(failed);
        let user = self.user.as_ref().map(|(user, file)| {
            let password = password(&secret(file)?);
            let password = password.map_err(|what| of_value(&self.of_file, what))?;
            Ok::<_, Refusal>((user.clone(), password))
        });
        let identity = self
            .identity
            .as_ref()
            .map(|(certificate, key)| Ok::<_, Refusal>((public(certificate)?, secret(key)?)));
        Ok(Secrets {
            user: user.transpose()?,
            certificate_authority: self.certificate_authority.as_ref().map(public).transpose()?,
            identity: identity.transpose()?,
        })
    }
}

impl Etcd {
    /// Checks the settings of an etcd. Endpoints that were `given` replace those of the store. All other
    /// settings are those of the store, which has this name in this file.
    pub(super) fn new(
        given: Option<&str>,
        table: Store,
        of: Option<(&Path, &str)>,
    ) -> Result<Self, Refusal> {
        let file = of.map(|(file, _)| file);
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
        let endpoints = endpoints(&given.or(table.etcd).unwrap_or_default());
        let endpoints = endpoints.map_err(|wrong| of_value(&origin, wrong))?;

        let wrong = |what: &str| of_value(&of_file, what);
        let path = |path: PathBuf| {
            // A path in a file is relative to the folder of that file.
            file.and_then(Path::parent).map_or_else(|| path.clone(), |folder| folder.join(&path))
        };
        let user = match (table.user, table.password_file) {
            (None, None) => None,
            (Some(user), Some(file)) => Some((user, path(file))),
            (Some(_), None) => return Err(wrong("there is a user, but no password-file; add one")),
            (None, Some(_)) => return Err(wrong("there is a password-file, but no user; add one")),
        };
        let identity = match (table.certificate, table.key) {
            (None, None) => None,
            (Some(certificate), Some(key)) => Some((path(certificate), path(key))),
            (Some(_), None) => return Err(wrong("there is a certificate, but no key; add one")),
            (None, Some(_)) => return Err(wrong("there is a key, but no certificate; add one")),
        };
        let certificate_authority = table.certificate_authority.map(path);
        let files = Files { of_file: of_file.clone(), user, certificate_authority, identity };
        // The files are read now, so that errors in them are reported now, and not when a file is
        // needed.
        let Secrets { certificate_authority, identity, .. } = files.read()?;
        let server_name = table.server_name;
        let has_tls =
            certificate_authority.is_some() || identity.is_some() || server_name.is_some();
        if has_tls && !endpoints.iter().any(|endpoint| endpoint.starts_with("https://")) {
            return Err(wrong("there are settings for TLS, but no endpoint begins with https://"));
        }
        let time_to_live = table.time_to_live.map(time_to_live).transpose();
        let time_to_live = time_to_live.map_err(|what| wrong(&what))?;
        let margin = table.margin.map(|margin| self::margin(margin, time_to_live)).transpose();
        let margin = margin.map_err(|what| wrong(&what))?;
        Ok(Self {
            origin,
            endpoints,
            follow_members: table.follow_members,
            namespace: table.namespace,
            time_to_live,
            margin,
            keep_names: table.keep_names,
            files,
            server_name,
        })
    }
}

/// Where the etcd is, for people.
impl fmt::Display for Etcd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.endpoints.join(", "))
    }
}

/// Checks each endpoint, and that there is one.
fn endpoints(given: &[String]) -> Result<Vec<String>, String> {
    if given.is_empty() {
        return Err("no endpoints of etcd; write etcd = [\"host:2379\"] there".to_owned());
    }
    given.iter().map(|text| endpoint(text.trim())).collect()
}

/// An endpoint, if it can be one.
fn endpoint(text: &str) -> Result<String, String> {
    let rest = text.strip_prefix("https://").or(text.strip_prefix("http://")).unwrap_or(text);
    let authority = rest.strip_suffix('/').unwrap_or(rest);
    let port = authority.rsplit_once(':').filter(|(host, _)| !host.is_empty());
    let port = port.and_then(|(_, port)| port.parse::<u16>().ok());
    if port.is_none() || authority.contains(['/', '@', ' ', '=', ';']) {
        // The part before an `@` is not shown, because it may contain a password.
        let shown = text.rsplit('@').next().unwrap_or_default();
        return Err(format!(
            "{shown:?} is no endpoint of etcd; give host:port, http://host:port or \
             https://host:port"
        ));
    }
    Ok(text.to_owned())
}

/// The password in a file, whose last line may end with a line break or without.
fn password(bytes: &[u8]) -> Result<String, &'static str> {
    let text = std::str::from_utf8(bytes).map_err(|_| "the password is no text in UTF-8")?;
    match text.strip_suffix('\n').unwrap_or(text) {
        "" => Err("the password-file is empty; write the password into it"),
        password => Ok(password.to_owned()),
    }
}

/// The time between the loss of a lock and its grant to others. Work under the lock has to end
/// within this time, and the lease is renewed in the rest of its time to live.
fn margin(given: f64, time_to_live: Option<Duration>) -> Result<Duration, String> {
    let most = time_to_live.unwrap_or(TIME_TO_LIVE) / 2;
    match Duration::try_from_secs_f64(given) {
        Ok(margin) if (LEAST_MARGIN..=most).contains(&margin) => Ok(margin),
        _ => Err(format!(
            "margin = {given}: it needs {} at least, or there is no time to end what works under \
             a lost lock, and {} at most, which is half of the time-to-live",
            seconds(LEAST_MARGIN),
            seconds(most)
        )),
    }
}

fn time_to_live(seconds: f64) -> Result<Duration, String> {
    match Duration::try_from_secs_f64(seconds) {
        Ok(time) if (SHORTEST..=LONGEST).contains(&time) => Ok(time),
        _ => Err(format!(
            "time-to-live = {seconds}: a broker needs {} s at least, or there is no time to replace \
             it while it keeps its locks, and {} s at most",
            SHORTEST.as_secs(),
            LONGEST.as_secs()
        )),
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests;
