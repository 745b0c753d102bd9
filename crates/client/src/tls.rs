//! Whom to trust: the certificates of authorities that were given, else the system's. Knows nothing of what is said.

use std::path::PathBuf;
use std::sync::Arc;

use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::error::Error;

/// Where systems keep the certificates of the authorities that they trust.
const SYSTEM_ROOTS: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// How connections are encrypted, trusting these authorities or else the system's.
pub(crate) fn config(ca_pem: Option<&[u8]>) -> Result<Arc<ClientConfig>, Error> {
    let roots = match ca_pem {
        Some(pem) => given_roots(pem)?,
        None => system_roots()?,
    };
    let unusable = |error| wrong(format!("TLS cannot be used here: {error}"));
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(unusable)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = Vec::from([b"h2".to_vec()]);
    Ok(Arc::new(config))
}

fn given_roots(pem: &[u8]) -> Result<RootCertStore, Error> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate =
            certificate.map_err(|error| wrong(format!("this is not a PEM file of certificates: {error}")))?;
        roots
            .add(certificate)
            .map_err(|error| wrong(format!("a certificate in it cannot be trusted: {error}")))?;
    }
    match roots.is_empty() {
        true => Err(wrong("there is no certificate in it (BEGIN CERTIFICATE)".into())),
        false => Ok(roots),
    }
}

/// The system's authorities. Certificates among them that cannot be read are passed over.
fn system_roots() -> Result<RootCertStore, Error> {
    let named = std::env::var_os("SSL_CERT_FILE").map(PathBuf::from);
    let files: Vec<PathBuf> = match named {
        Some(file) => Vec::from([file]),
        None => SYSTEM_ROOTS.map(PathBuf::from).into(),
    };
    let mut roots = RootCertStore::empty();
    for file in &files {
        if let Ok(pem) = std::fs::read(file) {
            roots.add_parsable_certificates(CertificateDer::pem_slice_iter(&pem).flatten());
        }
        if !roots.is_empty() {
            return Ok(roots);
        }
    }
    let looked: Vec<_> = files.iter().map(|file| file.display().to_string()).collect();
    Err(wrong(format!(
        "there are no certificates of authorities to trust in {}: give the one that signed the server's",
        looked.join(", ")
    )))
}

fn wrong(detail: String) -> Error {
    Error::Invalid { field: "ca".into(), detail }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_what_is_wrong_with_a_file() {
        for (pem, why) in [
            (&b""[..], "there is no certificate"),
            (b"not a certificate", "there is no certificate"),
            (
                b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
                "a certificate in it cannot be trusted",
            ),
        ] {
            let error = config(Some(pem)).unwrap_err();
            assert!(error.to_string().contains(why), "{error}");
        }
    }
}
