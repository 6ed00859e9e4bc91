//! TLS trust: servers whose certificate leads to a known root, or, on the operator's choice, every
//! server.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, RootCertStore, SignatureScheme};

/// The servers to trust.
///
/// ```
/// use crawl::fetch::trust::{Trust, tls};
/// let config = tls(Trust::Roots(Vec::new()))?;
/// assert!(config.alpn_protocols.contains(&b"h2".to_vec()));
/// # Ok::<(), String>(())
/// ```
#[derive(Debug)]
pub enum Trust {
    /// Servers certified by the roots that browsers trust, or by these.
    Roots(Vec<CertificateDer<'static>>),
    /// Every server, whatever its certificate.
    Anybody,
}

/// The TLS configuration.
///
/// # Errors
/// An error message, for an invalid certificate.
pub fn tls(trust: Trust) -> Result<rustls::ClientConfig, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(Arc::clone(&provider));
    let builder =
        builder.with_safe_default_protocol_versions().map_err(|error| format!("TLS cannot be set up: {error}"))?;
    let builder = match trust {
        Trust::Roots(extra) => {
            let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
            for root in extra {
                roots.add(root).map_err(|error| format!("a root certificate cannot be used: {error}"))?;
            }
            builder.with_root_certificates(roots)
        }
        Trust::Anybody => builder.dangerous().with_custom_certificate_verifier(Arc::new(Unchecked(provider))),
    };
    let mut config = builder.with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

/// A verifier that accepts every certificate.
#[derive(Debug)]
struct Unchecked(Arc<CryptoProvider>);

impl ServerCertVerifier for Unchecked {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
