//! The texts that name things. What is read is written in one way; what overlaps does so from both sides, and as the judge of
//! histories has it, who reads the texts for himself.

use leasehold_history::overlaps;
use leasehold_state_machine::file::FileName;
use leasehold_state_machine::ids::{LeaseId, SessionId};
use leasehold_state_machine::resource::Resource;
use leasehold_state_machine::words::{Metadata, Owner, Reason, RequestId};

use crate::Target;

/// The parsers of texts.
pub const TARGET: Target = Target { name: "resource", run, samples };

fn run(bytes: &[u8]) -> bool {
    let Ok(text) = str::from_utf8(bytes) else { return false };
    words(text);
    let read: Vec<Resource> = text.split('\n').filter_map(|line| Resource::parse(line).ok()).collect();
    for resource in &read {
        let again = Resource::parse(resource.text());
        assert_eq!(again.as_ref(), Ok(resource), "the canonical text is the resource");
        assert_eq!(resource.text(), resource.to_string());
        assert!(resource.text().len() <= 512 + "range:".len(), "a resource is short");
        assert!(!resource.text().contains(char::is_control));
        assert!(resource.overlaps(resource) && resource.covers(resource));
    }
    for pair in read.windows(2) {
        let [one, other] = pair else { continue };
        assert_eq!(one.overlaps(other), other.overlaps(one), "{one} {other}");
        assert!(!one.covers(other) || one.overlaps(other), "{one} {other}");
        assert_eq!(one.covers(other) && other.covers(one), spans(one) == spans(other), "{one} {other}");
        assert_eq!(one.overlaps(other), overlaps(one.text(), other.text()), "{one} {other}");
    }
    !read.is_empty()
}

/// A whole inode can be written as a range as well; nothing else has two texts.
fn spans(resource: &Resource) -> String {
    let text = resource.text();
    text.strip_prefix("inode:").map_or(text.into(), |inode| format!("range:{inode}:0-{}", 1_u64 << 63))
}

fn words(text: &str) {
    if let Ok(owner) = Owner::parse(text) {
        assert_eq!(owner.text(), text);
    }
    if let Ok(id) = RequestId::parse(text) {
        assert_eq!(id.text(), text);
    }
    if let Ok(reason) = Reason::parse(text) {
        assert_eq!(reason.text(), text);
    }
    if let Ok(name) = FileName::parse(text) {
        assert_eq!(name.text(), text);
        assert!(Resource::parse("path:/").is_ok_and(|root| root.covers(name.path())));
    }
    if let Ok(lease) = LeaseId::parse(text) {
        assert!(LeaseId::parse(&lease.text()) == Ok(lease));
    }
    if let Ok(session) = SessionId::parse(text) {
        assert!(SessionId::parse(&session.text()) == Ok(session));
    }
    let entries = text.lines().filter_map(|line| line.split_once('='));
    if let Ok(metadata) = Metadata::new(entries.map(|(key, value)| (key.into(), value.into())).collect()) {
        assert!(metadata.entries().len() <= 16);
    }
}

fn samples() -> Vec<Vec<u8>> {
    [
        "deploy\nname:deploy",
        "path:/\npath:/a/b",
        "path:/a/b\npath:/a/bc",
        "inode:42\nrange:42:0-4096",
        "range:42:0-10\nrange:42:10-20\nrange:42:5-9223372036854775807",
        "inode:9223372036854775807\ninode:4503599627370496",
        "reports/2026/a.log",
        "worker-1@host7",
        "l2a-00000000000000010000000000000002",
        "s0-ffffffffffffffffffffffffffffffff",
        "o1-0123456789abcdef0123456789abcdef",
        "sem:x\nfile:y\n..\n.",
        "ü\u{85}x",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec()
}
