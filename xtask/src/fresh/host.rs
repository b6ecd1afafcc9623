//! What the host has that the machine needs too: its mirrors of Debian, and how it reaches the network.

use std::{env, ffi::OsString, fs, path::PathBuf};

use crate::run::Result;

/// The environment of what runs in the machine. Of the host's variables it has those that say how to reach
/// the network and the registries, and some settings of cargo.
pub(super) fn environment(home: &str) -> Vec<OsString> {
    let carried = |name: &str| {
        let lower = name.to_lowercase();
        lower.ends_with("_proxy")
            || [
                "cargo_http_",
                "cargo_net_",
                "cargo_profile_",
                "cargo_registries_",
                "cargo_build_jobs",
            ]
            .iter()
            .any(|prefix| lower.starts_with(prefix))
            || lower.starts_with("npm_config_")
            || ["SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "CURL_CA_BUNDLE"].contains(&name)
    };
    let mut environment: Vec<OsString> = [
        "PATH=/opt/rust/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "LANG=C.UTF-8",
        "DEBIAN_FRONTEND=noninteractive",
    ]
    .map(OsString::from)
    .into();
    environment.push(format!("HOME={home}").into());
    for (name, value) in env::vars_os() {
        if name.to_str().is_some_and(carried) {
            let mut pair = name;
            pair.push("=");
            pair.push(value);
            environment.push(pair);
        }
    }
    environment
}

/// The mirror from which Debian is installed, and the files by which apt finds its packages afterwards.
pub(crate) struct Sources {
    pub(crate) suite: String,
    pub(crate) mirror: String,
    pub(super) files: Vec<(PathBuf, String)>,
}

/// The sources of this host.
///
/// # Errors
///
/// If no file of apt names a mirror: this host is no Debian.
pub(crate) fn debian_sources() -> Result<Sources> {
    let mut files = Vec::new();
    for file in ["/etc/apt/sources.list", "/etc/apt/sources.list.d/debian.sources"] {
        if let Ok(text) = fs::read_to_string(file) {
            files.push((PathBuf::from(file), text));
        }
    }
    let found = files.iter().find_map(|(_, text)| source(text));
    let (mirror, suite) = found.ok_or(
        "cannot tell from where Debian is installed: neither \
         /etc/apt/sources.list nor sources.list.d/debian.sources names it",
    )?;
    let files = files.into_iter().map(|(file, _)| {
        let to = file.to_string_lossy().into_owned();
        (file, to)
    });
    Ok(Sources { suite, mirror, files: files.collect() })
}

/// The first mirror and its suite, in either form in which apt has them.
fn source(text: &str) -> Option<(String, String)> {
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next().map(str::to_owned)
    };
    if let (Some(mirror), Some(suite)) = (field("URIs:"), field("Suites:")) {
        return Some((mirror, suite));
    }
    let line = text.lines().find_map(|line| line.strip_prefix("deb "))?;
    let mut words = line.split_whitespace().skip_while(|word| !word.contains("://"));
    Some((words.next()?.to_owned(), words.next()?.to_owned()))
}

/// The files of apt's settings that say how it reaches its mirrors.
pub(super) fn apt_settings() -> Vec<PathBuf> {
    let files = fs::read_dir("/etc/apt/apt.conf.d").into_iter().flatten().flatten();
    let is_wanted = |path: &PathBuf| {
        let text = fs::read_to_string(path).unwrap_or_default();
        text.lines().any(|line| line.trim_start().starts_with("Acquire"))
    };
    files.map(|file| file.path()).filter(is_wanted).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mirror_is_found_in_both_forms() {
        let stanza = "Types: deb\n# http://not.this/\nURIs: http://a/debian\nSuites: x x-updates\n\n\
                      URIs: http://b\nSuites: y\n";
        assert_eq!(source(stanza), Some(("http://a/debian".to_owned(), "x".to_owned())));
        let line = "# deb http://b y main\ndeb [signed-by=/k] http://a/debian x main\n";
        assert_eq!(source(line), Some(("http://a/debian".to_owned(), "x".to_owned())));
        assert_eq!(source("nothing\n"), None);
    }

    #[test]
    fn only_what_leads_to_the_network_is_carried_over() {
        let names: Vec<String> = environment("/home/ada")
            .into_iter()
            .filter_map(|pair| Some(pair.to_str()?.split_once('=')?.0.to_owned()))
            .collect();
        assert!(names.contains(&"PATH".to_owned()));
        assert!(!names.iter().any(|name| name == "CARGO_MANIFEST_DIR" || name == "CARGO"));
    }
}
