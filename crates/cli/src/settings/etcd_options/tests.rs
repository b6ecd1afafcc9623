//! Tables of etcd, and what is said of wrong ones.

use std::{fs, os::unix::fs::PermissionsExt};

use super::{
    super::{etcd::Etcd, given::Given},
    *,
};

/// The etcd of this table, in a folder with a password and with files that all may read.
fn etcd(given: Option<&str>, table: &str) -> Result<Etcd, Refusal> {
    let folder = tempfile::tempdir().unwrap();
    for (name, text, mode) in
        [("secret", "s3cret\n", 0o600), ("open", "x", 0o644), ("empty", "\n", 0o600)]
    {
        fs::write(folder.path().join(name), text).unwrap();
        let mode = fs::Permissions::from_mode(mode);
        fs::set_permissions(folder.path().join(name), mode).unwrap();
    }
    let file = folder.path().join("c.toml");
    let given =
        given.map(|text| Given { text, is_postgres: false, is_option: true, origin: "--etcd" });
    let of_file = format!("{}, [stores.main]", file.display());
    Etcd::new(given.as_ref(), &store(&file, table)?, Some(&file), &of_file)
}

fn store(file: &Path, table: &str) -> Result<StoreTable, Refusal> {
    let file = super::super::file::parse(file, &format!("[stores.main]\n{table}"));
    Ok(file?.stores.remove("main").unwrap().into_inner())
}

fn wrong(table: &str) -> String {
    etcd(None, table).err().unwrap_or_else(|| panic!("{table} is good")).to_string()
}

#[test]
fn a_given_option_goes_before_the_file_and_the_rest_is_the_files() {
    let table = "etcd = [\"a:1\", \"http://b:2\"]\nnamespace = \"n\"\ntime-to-live = 5";
    let of_file = etcd(None, table).unwrap();
    assert!(of_file.endpoints.iter().eq(["a:1", "http://b:2"]));
    assert!(of_file.origin.ends_with("c.toml, [stores.main]"), "{}", of_file.origin);
    let given = etcd(Some("c:3, https://[::1]:4/"), table).unwrap();
    assert!(given.endpoints.iter().eq(["c:3", "https://[::1]:4/"]));
    assert_eq!(given.origin, "--etcd");
    assert_eq!(given.namespace.as_deref(), Some("n"));
    let options = format!("{:?}", given.options);
    assert!(
        options.contains("namespace: \"n\"") && options.contains("time_to_live: 5s"),
        "{options}"
    );
}

#[test]
fn a_wrong_value_is_named() {
    for (table, what) in [
        ("", "no endpoints of etcd"),
        ("etcd = []", "no endpoints of etcd"),
        ("etcd = [\"\"]", "\"\" is no endpoint"),
        ("etcd = [\"host\"]", "\"host\" is no endpoint"),
        ("etcd = [\":2379\"]", "is no endpoint"),
        ("etcd = [\"east=a:2379;west=b:2379\"]", "is no endpoint"),
        ("etcd = [\"ftp://host:2379\"]", "is no endpoint"),
        ("etcd = [\"http://u:p@host:2379\"]", "[stores.main]: \"host:2379\" is no endpoint"),
        ("etcd = [\"http://host:2379/path\"]", "is no endpoint"),
        ("etcd = [\"a:1\"]\nuser = \"u\"", "no password-file"),
        ("etcd = [\"a:1\"]\npassword-file = \"secret\"", "no user"),
        ("etcd = [\"a:1\"]\nuser = \"u\"\npassword-file = \"open\"", "has mode 0644"),
        ("etcd = [\"a:1\"]\nuser = \"u\"\npassword-file = \"empty\"", "is empty"),
        ("etcd = [\"a:1\"]\nuser = \"u\"\npassword-file = \"none\"", "cannot read"),
        ("etcd = [\"a:1\"]\ntime-to-live = 4.9", "time-to-live = 4.9: a broker needs 5 s"),
        ("etcd = [\"a:1\"]\ntime-to-live = -1", "time-to-live = -1"),
        ("etcd = [\"a:1\"]\nmargin = 5.1", "margin = 5.1: it needs 0.5 s at least"),
        ("etcd = [\"a:1\"]\ntime-to-live = 6\nmargin = 3.5", "3 s at most"),
        ("etcd = [\"a:1\"]\nmargin = -1", "margin = -1"),
        ("etcd = [\"a:1\"]\ntime-to-live = nan", "time-to-live = NaN"),
        ("etcd = [\"a:1\"]\ntime-to-live = 86401", "86400 s at most"),
        ("etcd = [\"a:1\"]\nkeep-names = -1", "(keep-names): invalid value"),
        ("etcd = [\"https://a:1\"]\ncertificate = \"open\"", "no key"),
        ("etcd = [\"https://a:1\"]\nkey = \"secret\"", "no certificate"),
        ("etcd = [\"https://a:1\"]\ncertificate = \"open\"\nkey = \"open\"", "has mode 0644"),
        ("etcd = [\"a:1\"]\nwait-through-outages = true", "no setting `wait-through-outages`"),
        ("etcd = [\"a:1\"]\nserver-name = \"x\"", "no endpoint begins with https://"),
    ] {
        let said = wrong(table);
        assert!(said.contains(what) && said.contains("c.toml"), "{table}: {said}");
    }
}
