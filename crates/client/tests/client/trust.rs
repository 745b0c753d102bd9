//! Encryption and tokens: what fits works, and what does not is told apart.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use leasehold_client::{Ask, Client, Error, Trouble};
use leasehold_server::config::Given;
use leasehold_server::tls::self_signed::SelfSigned;

use crate::server::{Server, once};
use crate::unreachable::no_server;

/// A server with a certificate for these names, and the certificate.
fn encrypted(names: &[&str], token: Option<&str>) -> (Server, String, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let made = SelfSigned::new(&names).unwrap();
    let secret = |name: &str, text: &str| -> PathBuf {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        path
    };
    let server = Server::start_with(Given {
        tls_cert: Some(secret("cert.pem", &made.certificate_pem)),
        tls_key: Some(secret("key.pem", &made.key_pem)),
        token_file: token.map(|token| secret("tokens", token)),
        ..Given::default()
    });
    (server, made.certificate_pem, folder)
}

async fn tls_trouble(server: &str, ca_pem: Option<&str>) -> String {
    let builder = Client::builder(server).retry(once());
    let builder = match ca_pem {
        Some(pem) => builder.ca_pem(pem),
        None => builder,
    };
    match builder.connect().await.unwrap_err() {
        Error::ServerUnavailable(unavailable) => match unavailable.trouble {
            Trouble::Tls(_) => unavailable.to_string(),
            other => panic!("{other:?}"),
        },
        other => panic!("{other}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn encrypted_with_the_right_authority_and_token() {
    let (server, certificate, _folder) = encrypted(&["localhost", "127.0.0.1"], Some("a-long-secret-token"));
    for address in [format!("https://{}", server.address), format!("localhost:{}", server.address.port())] {
        let builder = Client::builder(&address).ca_pem(certificate.as_str()).token("a-long-secret-token");
        assert!(!format!("{builder:?}").contains("a-long-secret-token"));
        let client = builder.connect().await.unwrap();
        assert!(client.server().starts_with("https://"));
        assert!(!format!("{client:?}").contains("a-long-secret-token"));
        client.acquire(Ask::new(address)).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_right_token() {
    let (server, certificate, _folder) = encrypted(&["127.0.0.1"], Some("a-long-secret-token"));
    let builder = || Client::builder(&server.address.to_string()).ca_pem(certificate.as_str());
    for builder in [builder(), builder().token("another")] {
        let error = builder.connect().await.unwrap_err();
        assert!(matches!(&error, Error::NotAllowed { detail } if detail.contains("token")), "{error}");
    }
    let error = builder().token("two words").connect().await.unwrap_err();
    assert!(matches!(&error, Error::Invalid { field, .. } if field == "token"), "{error}");
    assert!(!error.to_string().contains("two words"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn encrypted_to_a_plain_server() {
    let server = Server::start();
    let (_, certificate, _folder) = encrypted(&["127.0.0.1"], None);
    let said = tls_trouble(&format!("https://{}", server.address), Some(&certificate)).await;
    assert!(said.contains("http://"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plain_to_an_encrypted_server() {
    let (server, _, _folder) = encrypted(&["127.0.0.1"], None);
    let unavailable = no_server(&server.address.to_string()).await;
    assert!(matches!(unavailable.trouble, Trouble::Tls(_)), "{unavailable}");
    assert!(unavailable.to_string().contains("https://"), "{unavailable}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates_that_are_not_to_be_trusted() {
    let (server, _, _folder) = encrypted(&["127.0.0.1"], None);
    let (other, other_certificate, _folder) = encrypted(&["elsewhere.example"], None);
    let said = tls_trouble(&format!("https://{}", server.address), Some(&other_certificate)).await;
    assert!(said.contains("not to be trusted"), "another authority: {said}");
    let said = tls_trouble(&format!("https://{}", other.address), Some(&other_certificate)).await;
    assert!(said.contains("not to be trusted"), "another name: {said}");
}
