//! Fenced files through the client, against a real server.

use std::time::{Duration, Instant};

use leasehold_client::{Ask, Claim, Client, Ended, Error, FileWrite, Mode};

use crate::proxy::{Proxy, Way};
use crate::server::{PATIENCE, Server, client};

const FILE: &str = "reports/a.log";

async fn claim(client: &Client, lock: &str) -> Claim {
    client.acquire(Ask::new(lock)).await.unwrap().claim()
}

async fn whole(client: &Client, name: &str) -> Vec<u8> {
    part(client, name, 0, None).await.unwrap()
}

async fn part(client: &Client, name: &str, offset: u64, length: Option<u64>) -> Result<Vec<u8>, Error> {
    let mut reader = client.read_file(name, offset, length).await?;
    let mut bytes = Vec::new();
    while let Some(piece) = reader.next().await? {
        bytes.extend(piece);
        assert_eq!(reader.position(), offset + bytes.len() as u64);
    }
    Ok(bytes)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_written_is_read_listed_and_deleted() {
    let server = Server::start();
    let client = server.client("me").await;
    let claim = claim(&client, "path:/reports").await;
    let wrote = client.write_file(&claim, FileWrite::append(FILE, "hello ")).await.unwrap();
    assert_eq!((wrote.offset, wrote.length, wrote.size), (0, 6, 6));
    let wrote = client.write_file(&claim, FileWrite::append(FILE, "world")).await.unwrap();
    assert_eq!((wrote.offset, wrote.length, wrote.size), (6, 5, 11));
    let wrote = client.write_file(&claim, FileWrite::at(FILE, 0, "H")).await.unwrap();
    assert_eq!((wrote.offset, wrote.length, wrote.size), (0, 1, 11));
    assert_eq!(whole(&client, FILE).await, b"Hello world");
    assert_eq!(part(&client, FILE, 6, Some(3)).await.unwrap(), b"wor");
    assert_eq!(part(&client, FILE, 11, None).await.unwrap(), b"");
    let beyond = part(&client, FILE, 12, None).await;
    assert!(matches!(&beyond, Err(Error::Invalid { field, .. }) if field == "offset"), "{beyond:?}");

    client.write_file(&claim, FileWrite::append("reports/empty", "")).await.unwrap();
    assert_eq!(whole(&client, "reports/empty").await, b"");
    let file = client.stat_file(FILE).await.unwrap();
    assert_eq!((file.name.as_str(), file.size, file.fencing_token), (FILE, 11, claim.fencing_token));
    let first = client.list_files("reports/", Some(1), None).await.unwrap();
    assert_eq!(first.rows, [file]);
    let second = client.list_files("reports/", Some(1), first.next_cursor).await.unwrap();
    assert_eq!((second.rows[0].name.as_str(), second.next_cursor), ("reports/empty", None));

    client.delete_file(&claim, FILE, Some("once".into())).await.unwrap();
    client.delete_file(&claim, FILE, Some("once".into())).await.unwrap();
    assert!(matches!(client.stat_file(FILE).await, Err(Error::NotFound { .. })));
    assert!(matches!(client.read_file(FILE, 0, None).await, Err(Error::NotFound { .. })));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_file_comes_in_pieces() {
    let server = Server::start();
    let client = server.client("me").await;
    let claim = claim(&client, "path:/big").await;
    let mut all = Vec::new();
    for number in 0..5u8 {
        let data: Vec<u8> =
            (0..1 << 20).map(|at: u32| number.wrapping_mul(31) ^ at.to_le_bytes()[0]).collect();
        client.write_file(&claim, FileWrite::append("big", data.clone())).await.unwrap();
        all.extend(data);
    }
    assert!(whole(&client, "big").await == all);
    assert!(part(&client, "big", 1_000_000, Some(2_000_000)).await.unwrap() == all[1_000_000..3_000_000]);
    let more = FileWrite::append("big", vec![0; (1 << 20) + 1]);
    let refused = client.write_file(&claim, more).await;
    assert!(matches!(refused, Err(Error::TooLarge { .. })), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_that_stand_still_keep_nobody_waiting() {
    let server = Server::start();
    let client = server.client("me").await;
    let writer = claim(&client, "path:/big").await;
    let size = 3 << 20;
    for _ in 0..3 {
        client.write_file(&writer, FileWrite::append("big", vec![7; 1 << 20])).await.unwrap();
    }
    let mut readers = Vec::new();
    for _ in 0..9 {
        readers.push(client.read_file("big", 0, None).await.unwrap());
        // Meanwhile the server sends each reader all that it may send ahead.
        for _ in 0..5 {
            client.renew(&writer, None, None).await.unwrap();
            client.stat_file("big").await.unwrap();
        }
    }
    for mut reader in readers {
        while let Some(piece) = reader.next().await.unwrap() {
            assert!(piece.iter().all(|byte| *byte == 7));
        }
        assert_eq!((reader.position(), reader.file().size), (size, size));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_that_breaks_says_so_and_goes_on_from_there() {
    let server = Server::start();
    let proxy = Proxy::to(server.address).await;
    let (reader, writer) = (client(proxy.address, "reader").await, server.client("writer").await);
    let claim = claim(&writer, "path:/big").await;
    for number in 0..6 {
        writer.write_file(&claim, FileWrite::append("big", vec![number; 1 << 20])).await.unwrap();
    }
    let mut reading = reader.read_file("big", 0, None).await.unwrap();
    let mut bytes = reading.next().await.unwrap().unwrap();
    // The window of a stream is smaller than the file: most of it has not been sent.
    proxy.cut();
    let error = loop {
        match reading.next().await {
            Ok(piece) => bytes.extend(piece.expect("it is cut before its end")),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, Error::ServerUnavailable(_)), "{error:?}");
    assert!(reading.next().await.is_err());
    assert_eq!(reading.position(), bytes.len() as u64);
    bytes.extend(part(&reader, "big", reading.position(), None).await.unwrap());
    assert!(bytes == (0..6).flat_map(|number| vec![number; 1 << 20]).collect::<Vec<u8>>());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_refusal_is_its_own() {
    let server = Server::start();
    let client = server.client("me").await;
    let append = async |claim: &Claim| client.write_file(claim, FileWrite::append(FILE, "x")).await;
    let other = claim(&client, "path:/elsewhere").await;
    assert!(matches!(append(&other).await, Err(Error::ScopeMismatch { .. })));
    let shared = Ask { mode: Mode::Shared, ..Ask::new("path:/reports") };
    let shared = client.acquire(shared).await.unwrap().claim();
    assert!(matches!(append(&shared).await, Err(Error::ScopeMismatch { .. })));
    client.release(&shared).await.unwrap();
    let good = claim(&client, "path:/reports").await;
    let stale = Claim { fencing_token: good.fencing_token + 1, ..good.clone() };
    assert_eq!(append(&stale).await, Err(Error::Ended(Ended::Stale)));
    let beyond = client.write_file(&good, FileWrite::at(FILE, 1, "x")).await;
    assert!(matches!(&beyond, Err(Error::Invalid { field, .. }) if field == "offset"), "{beyond:?}");
    let unnamed = client.write_file(&good, FileWrite::append("/reports", "x")).await;
    assert!(matches!(&unnamed, Err(Error::Invalid { field, .. }) if field == "name"), "{unnamed:?}");
    client.release(&good).await.unwrap();
    assert_eq!(append(&good).await, Err(Error::Ended(Ended::Released)));
    assert!(client.list_files("", None, None).await.unwrap().rows.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_append_whose_answer_was_lost_is_done_once() {
    let server = Server::start();
    let proxy = Proxy::to(server.address).await;
    let (unlucky, witness) = (client(proxy.address, "unlucky").await, server.client("witness").await);
    let claim = claim(&unlucky, "path:/reports").await;
    proxy.to_client(Way::Drop);
    let writing = tokio::spawn({
        let (unlucky, claim) = (unlucky.clone(), claim.clone());
        async move { unlucky.write_file(&claim, FileWrite::append(FILE, "once\n")).await }
    });
    let begun = Instant::now();
    while witness.stat_file(FILE).await.is_err() {
        assert!(begun.elapsed() < PATIENCE);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    proxy.to_client(Way::Forward);
    proxy.cut();
    let wrote = writing.await.unwrap().unwrap();
    assert_eq!((wrote.offset, wrote.length, wrote.size), (0, 5, 5));
    assert_eq!(whole(&witness, FILE).await, b"once\n");
}

#[tokio::test]
async fn the_server_of_testing_keeps_sizes_and_judges_leases() {
    let server = leasehold_client::testing::Server::new();
    let client = server.client("me");
    let claim = claim(&client, "path:/reports").await;
    let wrote = client.write_file(&claim, FileWrite::append(FILE, "hello")).await.unwrap();
    assert_eq!((wrote.offset, wrote.size), (0, 5));
    assert_eq!(client.stat_file(FILE).await.unwrap().fencing_token, claim.fencing_token);
    server.restart();
    let wrote = client.write_file(&claim, FileWrite::append(FILE, " again")).await.unwrap();
    assert_eq!((wrote.offset, wrote.size), (5, 11));
    client.release(&claim).await.unwrap();
    let late = client.write_file(&claim, FileWrite::append(FILE, "late")).await;
    assert_eq!(late, Err(Error::Ended(Ended::Released)));
    assert_eq!(client.list_files("", None, None).await.unwrap().rows[0].size, 11);
}
