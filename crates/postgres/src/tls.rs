//! TLS: which servers are believed, and what they are shown.

use std::sync::{Arc, LazyLock};

use navlock_core::Refusal;
use navlock_machines::credentials::Credentials;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::{CryptoProvider, ring::default_provider},
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject},
};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::trust::Trust;

/// What a server expects of those who begin with TLS at once (`sslnegotiation=direct`).
const PROTOCOL: &[u8] = b"postgresql";

/// What encrypts connections to servers that are trusted so.
///
/// # Errors
///
/// Which of the credentials cannot be used.
pub(crate) fn connector(
    trust: Trust,
    credentials: &Credentials,
) -> Result<MakeRustlsConnect, Refusal> {
    let crypto = Arc::new(default_provider());
    let chain = match trust {
        Trust::Anybody => None,
        Trust::Signed | Trust::Named => {
            let roots = roots(credentials.get_certificate_authority())?;
            let builder = WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&crypto));
            let why = |error| {
                Refusal::new(format!(
                    "there is no authority by which to check certificates ({error})"
                ))
            };
            Some(builder.build().map_err(why)?)
        }
    };
    let verifier = Verifier { chain, is_named: trust == Trust::Named, crypto: Arc::clone(&crypto) };
    let unusable = |error: Error| Refusal::new(format!("TLS cannot be used: {error}"));
    let builder = ClientConfig::builder_with_provider(crypto)
        .with_safe_default_protocol_versions()
        .map_err(unusable)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier));
    let mut config = match credentials.get_identity() {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => {
            let chain = CertificateDer::pem_slice_iter(certificate).collect::<Result<Vec<_>, _>>();
            let chain = chain.map_err(|_| wrong("certificate"))?;
            let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| wrong("key"))?;
            let unusable = |error| Refusal::new(format!("the certificate cannot be used: {error}"));
            builder.with_client_auth_cert(chain, key).map_err(unusable)?
        }
    };
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    Ok(MakeRustlsConnect::new(config))
}

/// Who may have signed a server's certificate: this authority, or those that the system trusts.
fn roots(authority: Option<&[u8]>) -> Result<Arc<RootCertStore>, Refusal> {
    static OF_SYSTEM: LazyLock<Arc<RootCertStore>> = LazyLock::new(|| {
        let mut roots = RootCertStore::empty();
        // One that cannot be used is left out.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        Arc::new(roots)
    });
    let Some(pem) = authority else { return Ok(Arc::clone(&OF_SYSTEM)) };
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|_| wrong("certificate-authority"))?;
        roots.add(certificate).map_err(|error| {
            Refusal::new(format!("the certificate-authority cannot be used: {error}"))
        })?;
    }
    Ok(Arc::new(roots))
}

/// The parser's own words may repeat a key.
fn wrong(what: &str) -> Refusal {
    Refusal::new(format!("the {what} is no PEM"))
}

/// Verifies the certificates of servers.
#[derive(Debug)]
struct Verifier {
    /// Who checks who has signed one, if that matters.
    chain: Option<Arc<WebPkiServerVerifier>>,
    /// Whether the certificate has to be for the name of the server.
    is_named: bool,
    crypto: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(chain) = &self.chain else { return Ok(ServerCertVerified::assertion()) };
        // The chain is checked before the name.
        match chain.verify_server_cert(certificate, intermediates, name, ocsp, now) {
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if !self.is_named => Ok(ServerCertVerified::assertion()),
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let known = &self.crypto.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signed, known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let known = &self.crypto.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signed, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.crypto.signature_verification_algorithms.supported_schemes()
    }
}
