//! The one TLS decision: rustls on ring; the platform's roots, else the bundled ones; plus the user's CA bundle.

use std::path::Path;
use std::sync::Arc;
use std::{fmt, fs, io};

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

use crate::SetupError;

/// The user's CA bundle, as PEM. Empty without one. Its certificates are read when the first connection needs them, since
/// there may be hundreds.
#[derive(Default)]
pub(crate) struct Bundle(Vec<u8>);

impl Bundle {
    fn certificates(&self) -> impl Iterator<Item = CertificateDer<'static>> {
        CertificateDer::pem_slice_iter(&self.0).filter_map(Result::ok)
    }
}

impl fmt::Debug for Bundle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Bundle({} bytes)", self.0.len())
    }
}

/// TLS for connections to `https` targets: trusts the system and `bundle`.
pub(crate) fn trusting(bundle: &Bundle) -> Result<ClientConfig, String> {
    let mut roots = system_roots();
    roots.add_parsable_certificates(bundle.certificates());
    client_config(roots)
}

/// TLS without trusted certificates, for a client that never uses it.
pub(crate) fn unused() -> Result<ClientConfig, String> {
    client_config(RootCertStore::empty())
}

/// Reads a PEM file that contains a usable certificate.
pub(crate) fn read_bundle(path: &Path) -> Result<Bundle, SetupError> {
    let pem = read_regular(path).map_err(|source| SetupError::CaBundle {
        path: path.to_owned(),
        source,
    })?;
    let bundle = Bundle(pem);
    let mut roots = RootCertStore::empty();
    if !bundle.certificates().any(|found| roots.add(found).is_ok()) {
        return Err(SetupError::CaBundleEmpty {
            path: path.to_owned(),
        });
    }
    Ok(bundle)
}

/// Neither waits for a pipe's writer nor reads a device without an end.
fn read_regular(path: &Path) -> io::Result<Vec<u8>> {
    if !fs::metadata(path)?.is_file() {
        let reason = "it is not a regular file";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
    }
    fs::read(path)
}

fn client_config(roots: RootCertStore) -> Result<ClientConfig, String> {
    // The provider is passed explicitly: no process-wide default has to be installed.
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
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
