//! An etcd that speaks TLS only, with those who show a certificate.

#![expect(clippy::unwrap_used, reason = "a test's helpers fail the test")]

mod authority;
mod server;

use std::{
    error::Error as _,
    fs, io,
    path::Path,
    time::{Duration, Instant},
};

use navlock_core::{Error, blocking::block_on_timeout};
use navlock_etcd::{Credentials, EtcdOptions, check, etcd};
use tempfile::TempDir;

use crate::{
    authority::{Authority, Identity},
    server::{DEADLINE, Server},
};

/// The etcd of these tests, whose certificate is for a name and not for its address.
struct Secured {
    server: Server,
    authority: Authority,
    /// Its own files: it reads the certificate and the key again for each connection, and the
    /// authority's when it starts.
    files: TempDir,
}

const NAME: &str = "etcd.test";

/// Puts a certificate into these files that is new, with its key and who has signed it.
fn write_identity(files: &TempDir, authority: &Authority, name: &str) {
    let own = authority.sign(name);
    let texts = [("ca.pem", &authority.pem), ("own.pem", &own.certificate), ("own.key", &own.key)];
    for (name, text) in texts {
        fs::write(files.path().join(name), text).unwrap();
    }
}

/// What stands in these files now.
fn read_identity(files: &Path) -> io::Result<Credentials> {
    let read = |name: &str| fs::read(files.join(name));
    let credentials = Credentials::new().certificate_authority(read("ca.pem")?);
    Ok(credentials.identity(read("own.pem")?, read("own.key")?))
}

impl Secured {
    fn start() -> Self {
        let (authority, files) = (Authority::new(), TempDir::new().unwrap());
        write_identity(&files, &authority, NAME);
        let path = |name: &str| files.path().join(name).display().to_string();
        let server = Server::start_with_tls([
            "--client-cert-auth".to_owned(),
            format!("--trusted-ca-file={}", path("ca.pem")),
            format!("--cert-file={}", path("own.pem")),
            format!("--key-file={}", path("own.key")),
        ]);
        Self { server, authority, files }
    }

    fn endpoint(&self) -> String {
        format!("https://{}", self.server.endpoint())
    }

    /// What is right, with these credentials.
    fn options(&self, credentials: Credentials) -> EtcdOptions {
        EtcdOptions::new([self.endpoint()]).credentials(credentials).server_name(NAME)
    }

    /// Trusts who has signed etcd's certificate.
    fn trusting(&self) -> Credentials {
        Credentials::new().certificate_authority(&self.authority.pem)
    }

    /// Shows a certificate that etcd trusts.
    fn identified(&self, credentials: Credentials) -> Credentials {
        let Identity { certificate, key } = self.authority.sign("client");
        credentials.identity(certificate, key)
    }
}

/// What connecting fails with, in good time.
#[track_caller]
fn refusal(options: EtcdOptions) -> String {
    let since = Instant::now();
    let error = block_on_timeout(etcd(options), DEADLINE).expect("it does not hang").unwrap_err();
    assert!(since.elapsed() < Duration::from_secs(10), "{error}: after {:?}", since.elapsed());
    assert!(matches!(error, Error::Unreachable(_)), "{error:?}");
    assert!(error.to_string().contains("cannot reach etcd at "), "{error}");
    error.to_string()
}

#[test]
fn a_machine_with_a_certificate_locks() {
    let etcd = Secured::start();
    let [a, b] = [(); 2].map(|()| {
        let machine = server::connect(&etcd.options(etcd.identified(etcd.trusting())));
        machine.lock_manager("bucket")
    });
    let guard = block_on_timeout(a.lock("db"), DEADLINE).expect("it comes to an end").unwrap();
    let successor = b.lock("db").into_future();
    let token = guard.fencing_token();
    drop(guard);
    let successor = block_on_timeout(successor, DEADLINE).expect("it comes to an end").unwrap();
    assert!(successor.fencing_token() > token);
}

#[test]
fn a_machine_with_no_certificate_or_a_wrong_one_is_refused() {
    let etcd = Secured::start();
    refusal(etcd.options(etcd.trusting()));
    // One that another has signed.
    let Identity { certificate, key } = Authority::new().sign("client");
    refusal(etcd.options(etcd.trusting().identity(certificate, key)));
    // No TLS at all.
    refusal(EtcdOptions::new([etcd.server.endpoint()]));
}

#[test]
fn a_machine_that_is_refused_is_told_the_remedy() {
    let etcd = Secured::start();
    let error = refusal(etcd.options(etcd.trusting()));
    assert!(error.contains("certificate"), "{error}");
    let error = refusal(EtcdOptions::new([etcd.server.endpoint()]));
    assert!(error.contains("https"), "{error}");
}

#[test]
fn an_etcd_that_is_not_the_one_is_refused() {
    let etcd = Secured::start();
    // Somebody has signed it whom we do not trust.
    let stranger = Credentials::new().certificate_authority(Authority::new().pem);
    let error = refusal(etcd.options(etcd.identified(stranger)));
    assert!(error.contains("invalid peer certificate"), "{error}");
    // Its certificate is for another name than the endpoint's, or than is expected.
    let right = etcd.identified(etcd.trusting());
    let error = refusal(EtcdOptions::new([etcd.endpoint()]).credentials(right.clone()));
    assert!(error.contains("not valid for name \"127.0.0.1\""), "{error}");
    let error = refusal(etcd.options(right).server_name("other.test"));
    assert!(error.contains("not valid for name \"other.test\""), "{error}");
}

#[test]
fn an_etcd_without_tls_is_an_error_and_no_hang() {
    let server = Server::start();
    refusal(EtcdOptions::new([format!("https://{}", server.endpoint())]));
}

/// Asks until it is true.
#[track_caller]
fn eventually(what: &str, mut is: impl FnMut() -> bool) {
    let since = Instant::now();
    while !is() {
        assert!(since.elapsed() < DEADLINE, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn locks_outlive_the_certificates_that_they_were_taken_with() {
    let mut etcd = Secured::start();
    let ours = TempDir::new().unwrap();
    write_identity(&ours, &etcd.authority, "client");
    let read = {
        let ours = ours.path().to_owned();
        move || read_identity(&ours)
    };
    let options = EtcdOptions::new([etcd.endpoint()]).server_name(NAME).credentials(read);
    let machine = server::connect(&options.time_to_live(Duration::from_secs(60)));
    let locks = machine.lock_manager("bucket");
    let guard = block_on_timeout(locks.lock("db"), DEADLINE).expect("it comes to an end").unwrap();
    let heard = || guard.term().expect("it has a lease").heard;

    // Nobody believes those of before any more, on neither side.
    let next = Authority::new();
    let before = heard();
    write_identity(&etcd.files, &next, NAME);
    write_identity(&ours, &next, "client");
    etcd.server.restart();
    eventually("the lease is renewed", || heard() > before);
    assert!(!guard.is_lost());
    let other = block_on_timeout(locks.lock("other"), DEADLINE).expect("it comes to an end");
    assert!(other.is_ok() && !guard.is_lost(), "{other:?}");
}

#[test]
fn files_that_cannot_be_read_are_an_error_at_first_and_waited_for_later() {
    let mut etcd = Secured::start();
    let ours = TempDir::new().unwrap();
    let path = ours.path().to_owned();
    let read = move || read_identity(&path);
    let options = EtcdOptions::new([etcd.endpoint()]).server_name(NAME).credentials(read);
    let error = block_on_timeout(navlock_etcd::etcd(options.clone()), DEADLINE);
    let error = error.expect("it comes to an end").unwrap_err();
    assert!(matches!(&error, Error::Refused(_)), "{error:?}");
    assert!(error.to_string().contains("No such file"), "{error}");
    let cause = error.source().expect("the source of credentials has said why");
    assert_eq!(
        cause.downcast_ref::<io::Error>().map(io::Error::kind),
        Some(io::ErrorKind::NotFound)
    );

    write_identity(&ours, &etcd.authority, "client");
    let locks = server::connect(&options).lock_manager("bucket");
    let next = Authority::new();
    write_identity(&etcd.files, &next, NAME);
    fs::remove_file(ours.path().join("own.key")).unwrap();
    etcd.server.restart();
    let waiting = locks.lock("db").into_future();
    write_identity(&ours, &next, "client");
    let guard = block_on_timeout(waiting, DEADLINE).expect("it comes to an end");
    assert!(guard.is_ok(), "{guard:?}");
}

/// Sees that the failure and the look at etcd's health say to give this.
#[track_caller]
fn is_told(options: &EtcdOptions, what: &str) {
    let error = refusal(options.clone());
    assert!(error.contains(what), "{error}");
    let health = check(options).unwrap();
    let remedy = health.endpoints[0].remedy.expect("there is something to do");
    assert!(remedy.contains(what), "{remedy}");
}

#[test]
fn a_machine_that_does_not_trust_etcds_certificate_is_told_the_missing_option() {
    let etcd = Secured::start();
    let nobody_known = etcd.options(etcd.identified(Credentials::new()));
    is_told(&nobody_known, "as certificate-authority");
    let right = etcd.identified(etcd.trusting());
    is_told(&EtcdOptions::new([etcd.endpoint()]).credentials(right), "as server-name");
}

#[test]
fn a_machine_that_cannot_use_etcds_own_certificate_is_told_the_missing_option() {
    let server = Server::start_with_tls(["--auto-tls".to_owned()]);
    let options = EtcdOptions::new([format!("https://{}", server.endpoint())]);
    is_told(&options, "--auto-tls");
    is_told(&options, "as certificate-authority");
}
