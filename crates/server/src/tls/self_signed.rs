//! A certificate of our own, for development: made once, kept in the data directory, trusted by nobody who was not told
//! to. Whoever uses it for more than trying things out has no proof of whom they talk to.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rcgen::{
    CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, KeyPair, KeyUsagePurpose,
};
use ring::digest::{SHA256, digest};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};

use super::{Tls, TlsError};
use crate::secret_file;

/// The certificate's file in the data directory.
const CERTIFICATE: &str = "dev-tls-cert.pem";
/// The key's file in the data directory.
const KEY: &str = "dev-tls-key.pem";

/// What the person who started the server is told of the certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Introduction {
    /// SHA-256 of the certificate, as `openssl x509 -fingerprint -sha256` writes it.
    pub fingerprint: String,
    /// Where it is, for clients that are to trust it; none when it is gone with the process.
    pub path: Option<PathBuf>,
}

/// TLS with a certificate of our own: the one in the folder, if it has these names, or a new one.
pub fn tls(folder: Option<&Path>, names: &[String]) -> Result<(Tls, Introduction), TlsError> {
    let Some(folder) = folder else {
        let made = SelfSigned::new(names)?;
        let (certificate, key) = made.parse()?;
        let introduction = Introduction { fingerprint: fingerprint(&certificate), path: None };
        return Ok((Tls::from_memory(vec![certificate], key)?, introduction));
    };
    let (path, key_path) = (folder.join(CERTIFICATE), folder.join(KEY));
    let kept = kept(&path, names).filter(|_| key_path.exists());
    let certificate = match kept {
        Some(certificate) => certificate,
        None => {
            let made = SelfSigned::new(names)?;
            let cannot = |source: io::Error| {
                TlsError::SelfSigned(format!("cannot write to {}: {source}", folder.display()))
            };
            replace(&key_path, &made.key_pem, 0o600).map_err(cannot)?;
            replace(&path, &made.certificate_pem, 0o644).map_err(cannot)?;
            made.parse()?.0
        }
    };
    let introduction = Introduction { fingerprint: fingerprint(&certificate), path: Some(path.clone()) };
    Ok((Tls::from_files(&path, &key_path)?, introduction))
}

/// A certificate and its key, as text.
pub struct SelfSigned {
    /// For those who are to trust it.
    pub certificate_pem: String,
    /// A secret.
    pub key_pem: String,
}

impl SelfSigned {
    /// Makes one for these names and addresses.
    pub fn new(names: &[String]) -> Result<SelfSigned, TlsError> {
        let cannot = |error: rcgen::Error| TlsError::SelfSigned(error.to_string());
        let mut params = CertificateParams::new(names).map_err(cannot)?;
        let mut subject = DistinguishedName::new();
        subject.push(DnType::CommonName, "Leasehold for development");
        params.distinguished_name = subject;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        // Nobody renews it, and nobody should come to depend on its end.
        params.not_before = rcgen::date_time_ymd(2025, 1, 1);
        params.not_after = rcgen::date_time_ymd(2049, 12, 31);
        let key = KeyPair::generate().map_err(cannot)?;
        let certificate = params.self_signed(&key).map_err(cannot)?;
        Ok(SelfSigned { certificate_pem: certificate.pem(), key_pem: key.serialize_pem() })
    }

    fn parse(&self) -> Result<(CertificateDer<'static>, PrivateKeyDer<'static>), TlsError> {
        let unreadable = |_| TlsError::SelfSigned("what was made cannot be read".to_owned());
        Ok((
            CertificateDer::from_pem_slice(self.certificate_pem.as_bytes()).map_err(unreadable)?,
            PrivateKeyDer::from_pem_slice(self.key_pem.as_bytes()).map_err(unreadable)?,
        ))
    }
}

/// The names of a server that listens here: its own machine's, its address, and those it is told.
pub fn names(listen: IpAddr, allow_hosts: &[String]) -> Vec<String> {
    let mut names = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
    if !listen.is_unspecified() && !names.contains(&listen.to_string()) {
        names.push(listen.to_string());
    }
    // What cannot stand in a certificate is still good for plain HTTP.
    names.extend(allow_hosts.iter().filter(|host| ServerName::try_from(host.as_str()).is_ok()).cloned());
    names
}

/// The certificate that was made at an earlier start, if it is good for these names.
fn kept(path: &Path, names: &[String]) -> Option<CertificateDer<'static>> {
    let (pem, _) = secret_file::read(path).ok()?;
    let certificate = CertificateDer::from_pem_slice(&pem).ok()?;
    let parsed = webpki::EndEntityCert::try_from(&certificate).ok()?;
    let has = |name: &String| {
        ServerName::try_from(name.as_str())
            .is_ok_and(|name| parsed.verify_is_valid_for_subject_name(&name).is_ok())
    };
    names.iter().all(has).then(|| certificate.clone())
}

/// Writes a file aside and puts it in its place, so that nobody ever reads half of it.
fn replace(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    let aside = path.with_extension("pem.new");
    match fs::remove_file(&aside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&aside)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&aside, path)
}

fn fingerprint(certificate: &CertificateDer<'_>) -> String {
    let bytes = digest(&SHA256, certificate);
    let bytes: Vec<_> = bytes.as_ref().iter().map(|byte| format!("{byte:02X}")).collect();
    bytes.join(":")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn is_made_once_and_anew_for_other_names() {
        let folder = tempfile::tempdir().unwrap();
        let start = |hosts: &[&str]| {
            let hosts: Vec<_> = hosts.iter().map(|host| (*host).to_owned()).collect();
            tls(Some(folder.path()), &names("10.1.2.3".parse().unwrap(), &hosts)).unwrap().1
        };
        let first = start(&[]);
        assert_eq!(first.fingerprint.len(), 32 * 3 - 1);
        assert_eq!(first, start(&[]));
        let second = start(&["locks.example", "not a name"]);
        assert_ne!(first.fingerprint, second.fingerprint);
        assert_eq!(second, start(&[]), "it is good for fewer names");
        let mode = fs::metadata(folder.path().join(KEY)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        fs::remove_file(folder.path().join(KEY)).unwrap();
        assert_ne!(second.fingerprint, start(&[]).fingerprint);
        let passing = tls(None, &names("127.0.0.1".parse().unwrap(), &[])).unwrap().1;
        assert_eq!(passing.path, None);
    }
}
