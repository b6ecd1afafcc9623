//! An etcd that speaks TLS only, with those who show a certificate.

#![expect(clippy::unwrap_used, reason = "a test's helpers fail the test")]

mod server;

use std::{
    fs,
    time::{Duration, Instant},
};

use navlock_core::{Error, blocking::block_on_timeout};
use navlock_etcd::{EtcdOptions, etcd};
use rcgen::{
    BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use tempfile::TempDir;

use crate::server::{DEADLINE, Server};

/// Who signs certificates.
struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its key, in PEM.
struct Identity {
    certificate: String,
    key: String,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self { pem, issuer: Issuer::new(params, key) }
    }

    fn sign(&self, name: &str) -> Identity {
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        // Etcd is also a client of its own.
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap().pem();
        Identity { certificate, key: key.serialize_pem() }
    }
}

/// The etcd of these tests, whose certificate is for a name and not for its address.
struct Secured {
    server: Server,
    authority: Authority,
    /// It reads them again for each connection.
    _files: TempDir,
}

const NAME: &str = "etcd.test";

impl Secured {
    fn start() -> Self {
        let authority = Authority::new();
        let own = authority.sign(NAME);
        let files = TempDir::new().unwrap();
        let write = |name: &str, text: &str| {
            let path = files.path().join(name);
            fs::write(&path, text).unwrap();
            path.display().to_string()
        };
        let server = Server::start_with_tls([
            "--client-cert-auth".to_owned(),
            format!("--trusted-ca-file={}", write("ca.pem", &authority.pem)),
            format!("--cert-file={}", write("own.pem", &own.certificate)),
            format!("--key-file={}", write("own.key", &own.key)),
        ]);
        Self { server, authority, _files: files }
    }

    /// What is right, but for who we are.
    fn options(&self) -> EtcdOptions {
        EtcdOptions::new([format!("https://{}", self.server.endpoint())])
            .certificate_authority(&self.authority.pem)
            .server_name(NAME)
    }

    fn identify(&self, options: EtcdOptions) -> EtcdOptions {
        let Identity { certificate, key } = self.authority.sign("client");
        options.identity(certificate, key)
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
fn who_has_a_certificate_locks() {
    let etcd = Secured::start();
    let [a, b] = [(); 2].map(|()| {
        let machine = server::connect(&etcd.identify(etcd.options()));
        machine.lock_manager("bucket")
    });
    let guard = block_on_timeout(a.lock("db"), DEADLINE).expect("it comes to an end").unwrap();
    let heir = b.lock("db").into_future();
    let token = guard.fencing_token();
    drop(guard);
    let heir = block_on_timeout(heir, DEADLINE).expect("it comes to an end").unwrap();
    assert!(heir.fencing_token() > token);
}

#[test]
fn who_has_none_or_a_wrong_one_is_refused() {
    let etcd = Secured::start();
    refusal(etcd.options());
    // One that another has signed.
    let Identity { certificate, key } = Authority::new().sign("client");
    refusal(etcd.options().identity(certificate, key));
    // No TLS at all.
    refusal(EtcdOptions::new([etcd.server.endpoint()]));
}

#[test]
fn who_is_refused_is_told_what_to_do() {
    let etcd = Secured::start();
    let error = refusal(etcd.options());
    assert!(error.contains("certificate"), "{error}");
    let error = refusal(EtcdOptions::new([etcd.server.endpoint()]));
    assert!(error.contains("https"), "{error}");
}

#[test]
fn an_etcd_that_is_not_the_one_is_refused() {
    let etcd = Secured::start();
    let endpoint = format!("https://{}", etcd.server.endpoint());
    // Somebody has signed it whom we do not trust.
    let other = Authority::new();
    let stranger = EtcdOptions::new([&endpoint]).certificate_authority(other.pem).server_name(NAME);
    let error = refusal(etcd.identify(stranger));
    assert!(error.contains("invalid peer certificate"), "{error}");
    // Its certificate is for another name than the endpoint's, or than is expected.
    let nameless = EtcdOptions::new([&endpoint]).certificate_authority(&etcd.authority.pem);
    let error = refusal(etcd.identify(nameless));
    assert!(error.contains("not valid for name \"127.0.0.1\""), "{error}");
    let error = refusal(etcd.identify(etcd.options().server_name("other.test")));
    assert!(error.contains("not valid for name \"other.test\""), "{error}");
}

#[test]
fn an_etcd_without_tls_is_an_error_and_no_hang() {
    let server = Server::start();
    refusal(EtcdOptions::new([format!("https://{}", server.endpoint())]));
}
