//! The one TLS decision: rustls on ring; the platform's roots, else the bundled ones; the user's CA bundle on top.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

use crate::SetupError;

/// TLS for clients, trusting the system and `ca_bundle`.
pub(crate) fn client_config(ca_bundle: Option<&Path>) -> Result<ClientConfig, SetupError> {
    let mut roots = system_roots();
    if let Some(path) = ca_bundle {
        add_bundle(&mut roots, path)?;
    }
    // The provider is passed explicitly: no process-wide default has to be installed.
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| SetupError::Tls {
            reason: error.to_string(),
        })?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

fn system_roots() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    let (added, ignored) = roots.add_parsable_certificates(found.certs);
    if added == 0 {
        // A container without CA files would otherwise fail on every call.
        roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
        tracing::debug!(
            errors = found.errors.len(),
            "no platform CA certificates, using the bundled ones"
        );
    } else {
        tracing::trace!(added, ignored, "platform CA certificates");
    }
    roots
}

fn add_bundle(roots: &mut RootCertStore, path: &Path) -> Result<(), SetupError> {
    let pem = std::fs::read(path).map_err(|source| SetupError::CaBundle {
        path: path.to_owned(),
        source,
    })?;
    let certificates = CertificateDer::pem_slice_iter(&pem).filter_map(Result::ok);
    let (added, _ignored) = roots.add_parsable_certificates(certificates);
    if added == 0 {
        return Err(SetupError::CaBundleEmpty {
            path: path.to_owned(),
        });
    }
    Ok(())
}
