//! TLS: a certificate and its key, and what the accept loop needs of them. They can be taken anew while connections
//! live on with the old ones. Never logs or shows a key; knows nothing of what is asked.

pub mod self_signed;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{self, ServerConfig};
use tracing::{info, warn};

use crate::secret_file::{self, Exposed, SecretFileError};

/// What is spoken inside, best first.
const ALPN: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// Why there is no TLS.
#[derive(Debug)]
pub enum TlsError {
    /// A file is of no use.
    File(SecretFileError),
    /// A file has no certificate in it.
    NoCertificate(PathBuf),
    /// A file has no private key in it.
    NoKey(PathBuf),
    /// Certificate and key do not serve together.
    Unusable {
        /// The certificate's file.
        certificate: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// A certificate of our own cannot be made.
    SelfSigned(String),
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TlsError::File(error) => error.fmt(f),
            TlsError::NoCertificate(path) => {
                write!(f, "{} has no certificate in PEM form (BEGIN CERTIFICATE)", path.display())
            }
            TlsError::NoKey(path) => {
                write!(f, "{} has no unencrypted private key in PEM form (BEGIN PRIVATE KEY)", path.display())
            }
            TlsError::Unusable { certificate, why } => {
                write!(f, "cannot use the certificate {} with its key: {why}", certificate.display())
            }
            TlsError::SelfSigned(why) => write!(f, "cannot make a certificate: {why}"),
        }
    }
}

impl std::error::Error for TlsError {}

/// The certificate a server shows now, and where it comes from.
pub struct Tls {
    files: Option<(PathBuf, PathBuf)>,
    shown: RwLock<Arc<Shown>>,
}

struct Shown {
    config: Arc<ServerConfig>,
    names: Vec<String>,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tls({:?})", self.files)
    }
}

impl Tls {
    /// From a file with a chain of certificates, the server's own first, and one with its private key.
    pub fn from_files(certificate: &Path, key: &Path) -> Result<Tls, TlsError> {
        let shown = read(certificate, key)?;
        let files = Some((certificate.to_owned(), key.to_owned()));
        Ok(Tls { files, shown: RwLock::new(Arc::new(shown)) })
    }

    /// From a certificate that was made here and now.
    pub fn from_memory(
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
    ) -> Result<Tls, TlsError> {
        let shown = Shown::new(chain, key).map_err(TlsError::SelfSigned)?;
        Ok(Tls { files: None, shown: RwLock::new(Arc::new(shown)) })
    }

    /// For the next connection.
    pub fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(Arc::clone(&self.now().config))
    }

    /// Reads the files again, for connections to come. If they are no longer of use, the old certificate stays.
    pub fn reload(&self) -> Result<(), TlsError> {
        let Some((certificate, key)) = &self.files else { return Ok(()) };
        let new = Arc::new(read(certificate, key)?);
        info!("took the certificate in {}", certificate.display());
        *self.shown.write().unwrap_or_else(PoisonError::into_inner) = new;
        Ok(())
    }

    /// Whether the certificate says that we go by this name.
    pub fn is_ours(&self, host: &str) -> bool {
        self.now().names.iter().any(|name| match name.strip_prefix("*.") {
            // A star stands for one label.
            Some(parent) => host
                .split_once('.')
                .is_some_and(|(label, rest)| !label.is_empty() && rest.eq_ignore_ascii_case(parent)),
            None => name.eq_ignore_ascii_case(host),
        })
    }

    fn now(&self) -> Arc<Shown> {
        Arc::clone(&self.shown.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Shown {
    fn new(chain: Vec<CertificateDer<'static>>, key: PrivateKeyDer<'static>) -> Result<Shown, String> {
        let names = match chain.first().map(webpki::EndEntityCert::try_from) {
            Some(Ok(certificate)) => certificate.valid_dns_names().map(str::to_owned).collect(),
            Some(Err(error)) => return Err(error.to_string()),
            None => return Err("there is none".to_owned()),
        };
        let mut config = configure(chain, key).map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => "the key belongs to another certificate".to_owned(),
            error => error.to_string(),
        })?;
        config.alpn_protocols = ALPN.map(<[u8]>::to_vec).to_vec();
        Ok(Shown { config: Arc::new(config), names })
    }
}

/// The provider is named here and nowhere installed, so that nobody else's choice changes ours.
fn configure(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<ServerConfig, rustls::Error> {
    ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)
}

fn read(certificate: &Path, key: &Path) -> Result<Shown, TlsError> {
    let (pem, _) = secret_file::read(certificate).map_err(TlsError::File)?;
    let chain: Vec<_> = CertificateDer::pem_slice_iter(&pem)
        .collect::<Result<_, _>>()
        .map_err(|_| TlsError::NoCertificate(certificate.to_owned()))?;
    if chain.is_empty() {
        return Err(TlsError::NoCertificate(certificate.to_owned()));
    }
    let (pem, Exposed(exposed)) = secret_file::read(key).map_err(TlsError::File)?;
    let secret = PrivateKeyDer::from_pem_slice(&pem).map_err(|_| TlsError::NoKey(key.to_owned()))?;
    let shown = Shown::new(chain, secret)
        .map_err(|why| TlsError::Unusable { certificate: certificate.to_owned(), why })?;
    if exposed {
        let key = key.display();
        warn!("everybody on this machine may read or change the private key {key}: chmod 600 {key}");
    }
    Ok(shown)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::self_signed::SelfSigned;
    use super::*;

    fn write(folder: &Path, names: &[&str]) -> (PathBuf, PathBuf) {
        let made = SelfSigned::new(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()).unwrap();
        let (certificate, key) = (folder.join("cert.pem"), folder.join("key.pem"));
        fs::write(&certificate, &made.certificate_pem).unwrap();
        fs::write(&key, &made.key_pem).unwrap();
        (certificate, key)
    }

    #[test]
    fn goes_by_the_names_of_its_certificate() {
        let folder = tempfile::tempdir().unwrap();
        let (certificate, key) = write(folder.path(), &["locks.example", "*.pool.example", "10.1.2.3"]);
        let tls = Tls::from_files(&certificate, &key).unwrap();
        for name in ["locks.example", "LOCKS.example", "a.pool.example"] {
            assert!(tls.is_ours(name), "{name}");
        }
        for name in ["example", "evil.example", "a.locks.example", "a.b.pool.example", ".pool.example", ""] {
            assert!(!tls.is_ours(name), "{name}");
        }
        write(folder.path(), &["other.example"]);
        assert!(!tls.is_ours("other.example"));
        tls.reload().unwrap();
        assert!(tls.is_ours("other.example") && !tls.is_ours("locks.example"));
    }

    #[test]
    fn what_is_wrong_is_said_and_the_old_certificate_stays() {
        let folder = tempfile::tempdir().unwrap();
        let (certificate, key) = write(folder.path(), &["a.example"]);
        let tls = Tls::from_files(&certificate, &key).unwrap();
        let said =
            |certificate: &Path, key: &Path| Tls::from_files(certificate, key).unwrap_err().to_string();
        assert!(said(&key, &key).contains("no certificate"));
        assert!(said(&certificate, &certificate).contains("no unencrypted private key"));
        assert!(said(&certificate, Path::new("/nowhere")).contains("/nowhere"));
        let other = tempfile::tempdir().unwrap();
        let (_, other_key) = write(other.path(), &["a.example"]);
        assert!(said(&certificate, &other_key).contains("another certificate"));
        fs::write(&certificate, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n").unwrap();
        assert!(tls.reload().is_err() && tls.is_ours("a.example"));
    }
}
