//! TLS: chain and host name are always verified; there is no switch to turn that off.

use std::path::Path;
use std::sync::Arc;

use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::url::ParsedUrl;
use crate::error::Error;

/// Reads the certificates once; every connection shares them.
pub(super) fn connector(target: &ParsedUrl) -> Result<Option<TlsConnector>, Error> {
    if !target.tls {
        return Ok(None);
    }
    let roots = match &target.ca_file {
        Some(path) => own_authorities(path)?,
        None => system_authorities()?,
    };
    // The provider is named, because rustls panics when it has to guess between two that other crates switched on.
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::invalid("TLS cannot be set up").caused_by(error))?
        .with_root_certificates(roots);
    let config = match (&target.client_cert_file, &target.client_key_file) {
        (Some(cert), Some(key)) => {
            let chain = read_certificates(cert)?;
            let key = PrivateKeyDer::from_pem_file(key).map_err(|error| unreadable(key, error))?;
            config
                .with_client_auth_cert(chain, key)
                .map_err(|error| Error::invalid("the client certificate and its key do not fit").caused_by(error))?
        }
        _ => config.with_no_client_auth(),
    };
    Ok(Some(TlsConnector::from(Arc::new(config))))
}

fn own_authorities(path: &Path) -> Result<RootCertStore, Error> {
    let mut roots = RootCertStore::empty();
    for certificate in read_certificates(path)? {
        roots.add(certificate).map_err(|error| unreadable(path, error))?;
    }
    Ok(roots)
}

fn system_authorities() -> Result<RootCertStore, Error> {
    let mut roots = RootCertStore::empty();
    // One odd file in the system's store must not make TLS impossible: take what can be read.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        return Err(Error::invalid(
            "this machine has no certificate authorities: install ca-certificates, or name a file with ?ca=/path/ca.pem",
        ));
    }
    Ok(roots)
}

fn read_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let certificates: Vec<_> =
        CertificateDer::pem_file_iter(path).and_then(Iterator::collect).map_err(|error| unreadable(path, error))?;
    if certificates.is_empty() {
        return Err(Error::invalid(format!("{} holds no PEM certificate", path.display())));
    }
    Ok(certificates)
}

fn unreadable(path: &Path, error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::invalid(format!("{} is not a readable PEM file", path.display())).caused_by(error)
}
