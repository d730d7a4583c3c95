//! TLS: chain and host name are always verified; there is no switch to turn that off.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{self, AlertDescription, CertificateError, ClientConfig, ClientConnection, RootCertStore};

use super::address::Address;
use super::trouble::Trouble;
use super::url::ParsedUrl;
use crate::value::error::{Error, ErrorKind};

/// What connections are secured with. Certificates are renewed while programs run: where a file is another one by now, the
/// next connection reads it.
pub(super) struct Tls {
    ca_file: Option<PathBuf>,
    /// Our own, and its key.
    client_files: Option<(PathBuf, PathBuf)>,
    current: Mutex<(Vec<Stamp>, TlsConnector)>,
}

/// By which a file is told from an earlier one of its name; none if there is none.
type Stamp = Option<(Option<SystemTime>, u64, u64)>;

impl Tls {
    /// Reads the certificates; none where the URL wants no TLS.
    pub(super) fn new(target: &ParsedUrl) -> Result<Option<Self>, Error> {
        if !target.tls {
            return Ok(None);
        }
        let ca_file = target.ca_file.clone();
        let client_files = target.client_cert_file.clone().zip(target.client_key_file.clone());
        let stamps = stamps(ca_file.as_ref(), client_files.as_ref());
        let current = Mutex::new((stamps, connector(ca_file.as_deref(), client_files.as_ref())?));
        Ok(Some(Self { ca_file, client_files, current }))
    }

    /// With the certificates that are in the files now; if these cannot be read, with the last ones.
    pub(super) fn connector(&self) -> TlsConnector {
        let stamps = stamps(self.ca_file.as_ref(), self.client_files.as_ref());
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.0 != stamps
            && let Ok(connector) = connector(self.ca_file.as_deref(), self.client_files.as_ref())
        {
            *current = (stamps, connector);
        }
        current.1.clone()
    }
}

fn stamps(ca_file: Option<&PathBuf>, client_files: Option<&(PathBuf, PathBuf)>) -> Vec<Stamp> {
    let files = ca_file.into_iter().chain(client_files.into_iter().flat_map(|(cert, key)| [cert, key]));
    files.map(|file| file.metadata().ok().map(|found| (found.modified().ok(), found.len(), found.ino()))).collect()
}

fn connector(ca_file: Option<&Path>, client_files: Option<&(PathBuf, PathBuf)>) -> Result<TlsConnector, Error> {
    let roots = match ca_file {
        Some(path) => own_authorities(path)?,
        None => system_authorities()?,
    };
    let config = config_trusting(roots).map_err(|error| Error::invalid("TLS cannot be set up").caused_by(error))?;
    let config = match client_files {
        Some((cert, key)) => {
            let chain = read_certificates(cert)?;
            let key = PrivateKeyDer::from_pem_file(key).map_err(|error| unreadable(key, error))?;
            config
                .with_client_auth_cert(chain, key)
                .map_err(|error| Error::invalid("the client certificate and its key do not fit").caused_by(error))?
        }
        None => config.with_no_client_auth(),
    };
    Ok(TlsConnector::from(Arc::new(config)))
}

fn config_trusting(
    roots: RootCertStore,
) -> Result<rustls::ConfigBuilder<ClientConfig, rustls::client::WantsClientCert>, rustls::Error> {
    // The provider is named, because rustls panics when it has to guess between two that other crates switched on.
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    Ok(builder.with_safe_default_protocol_versions()?.with_root_certificates(roots))
}

/// What a client says first, to see whether TLS is answered. Nothing comes of it: no authority is trusted.
pub(super) fn hello(host: &str) -> Option<Vec<u8>> {
    let config = config_trusting(RootCertStore::empty()).ok()?.with_no_client_auth();
    let name = ServerName::try_from(host.to_owned()).ok()?;
    let mut bytes = Vec::new();
    ClientConnection::new(Arc::new(config), name).ok()?.write_tls(&mut bytes).ok()?;
    Some(bytes)
}

/// The two ends do not trust each other's certificates: no time heals that, so it is never tried again. None: the error is
/// another one.
pub(super) fn refusal(address: &Address, error: &io::Error) -> Option<Trouble> {
    let message = match error.get_ref()?.downcast_ref()? {
        rustls::Error::InvalidCertificate(reason) => {
            format!("the certificate of {address} is not to be trusted: {}", distrust(reason))
        }
        rustls::Error::NoCertificatesPresented => format!("{address} shows no certificate: give it one"),
        rustls::Error::AlertReceived(
            AlertDescription::CertificateRequired
            | AlertDescription::BadCertificate
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateUnknown
            | AlertDescription::UnknownCA
            | AlertDescription::AccessDenied,
        ) => format!(
            "{address} wants a client certificate that it trusts: name one with ?cert=/path/cert.pem&key=/path/key.pem"
        ),
        _ => return None,
    };
    Some(Trouble::refused(Error::new(ErrorKind::AuthenticationFailed, message)))
}

fn distrust(reason: &CertificateError) -> String {
    match reason {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "it has expired: renew it (or is the clock of this machine wrong?)".into()
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "it is not valid yet (is the clock of this machine wrong?)".into()
        }
        CertificateError::NotValidForNameContext { presented, .. } if !presented.is_empty() => format!(
            "it is for another host ({}): use that name in the URL, or a certificate for this one",
            presented.iter().map(|name| plain_name(name)).collect::<Vec<_>>().join(", ")
        ),
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "it is for another host: use its name in the URL, or a certificate for this one".into()
        }
        // The latter when a trusted authority has the issuer's name, but another key: it was made again.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "no authority that is trusted here has issued it: name your own authority \
                                            with ?ca=/path/ca.pem"
                .into()
        }
        CertificateError::Revoked => "it has been revoked: renew it".into(),
        // An error of the crate behind rustls, of which only its name is known here.
        CertificateError::Other(other) if format!("{other:?}").contains("CaUsedAsEndEntity") => {
            "it is an authority's own, and no server's: issue one for the server with that authority, or make a \
             self-signed one with `openssl req -x509 -addext basicConstraints=critical,CA:FALSE ...`"
                .into()
        }
        _ => "it is damaged, or made in a way that is not accepted here: look at it with `openssl x509 -text`".into(),
    }
}

/// `DnsName("localhost")` as rustls gives it: without the type around it.
fn plain_name(presented: &str) -> &str {
    presented.split('"').nth(1).unwrap_or(presented)
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
