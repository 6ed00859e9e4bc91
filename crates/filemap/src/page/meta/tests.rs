//! Tests of the meta layout: golden bytes, round trip, totality.

use proptest::prelude::*;

use super::*;
use crate::page::headers::Header;
use crate::page::{ArchiveId, HttpVersion, InPlace, Original, Page, RecordKind, Revisit, RevisitProfile};

fn full_page() -> Page {
    Page {
        url: b"HTTP://a/#x".to_vec(),
        variant: None,
        fetched_at_ms: 7,
        kind: RecordKind::Revisit,
        status: Some(301),
        reason: b"Moved".to_vec(),
        http_version: Some(HttpVersion::Other("ICY".into())),
        method: Some("GET".into()),
        ip: Some("1.2.3.4".parse().expect("an address")),
        headers: [Header::new("A", b"\xff".to_vec()), Header::new("A", "")].into_iter().collect(),
        body: Vec::new(),
        truncated: Some("length".into()),
        digest: Some("md5:0".into()),
        record_id: Some("<urn:uuid:00000000-0000-0000-0000-0000000000ff>".into()),
        revisit: Some(Revisit {
            profile: RevisitProfile::Other("p".into()),
            refers_to_url: Some(b"u".to_vec()),
            refers_to_ms: Some(-1),
            refers_to_id: Some("i".into()),
            original: None,
        }),
        in_place: None,
    }
}

fn in_place() -> Page {
    let place = InPlace { archive: ArchiveId(0x0807_0605_0403_0201), offset: 300, length: 5 };
    let mut page = Page { in_place: Some(place), ..Page::new("http://a/", 7, 200, "") };
    page.headers.push("Content-Type", "a/b");
    page
}

#[test]
fn golden_bytes_of_a_page_in_place() {
    let mut page = in_place();
    let encoded = encode(&page, b"http://a/").expect("fits");
    let place = [1, 2, 3, 4, 5, 6, 7, 8, 0xac, 2, 5];
    assert_eq!(encoded.meta, [&[1, 1, 0, 0x30, 200, 0, 0, 0, 0, 0, 0, 0][..], &place, b"\x03a/b"].concat());
    assert!(is_in_place(&encoded.meta));
    page.headers.push("A", "");
    let encoded = encode(&page, b"http://a/").expect("fits");
    assert_eq!(encoded.meta[3], 0x10);
    assert_eq!(decode(&encoded.meta, b"", b"http://a/", 7), Ok(page));
    // The content type alone has one form, and only in place.
    for (flags, rest) in [(0x10u8, [&place[..], b"\x01\x0cContent-Type\x01a"].concat()), (0x20, b"\x03a/b".to_vec())] {
        let meta = [&[1, 1, 0, flags, 200, 0, 0, 0, 0, 0, 0, 0][..], &rest].concat();
        assert!(matches!(decode(&meta, b"", b"", 7), Err(MetaError::Invalid { .. })), "{flags}");
        assert!(!is_in_place(&meta[..5]));
    }
}

#[test]
fn golden_bytes_of_version_1() {
    let small = Page::new("http://a/", 7, 200, "ignored");
    let encoded = encode(&small, b"http://a/").expect("fits");
    assert_eq!(encoded.meta, [1, 1, 0, 0, 200, 0, 0, 0, 0, 0, 0, 0, 0]);

    let encoded = encode(&full_page(), b"http://a/").expect("fits");
    let mut golden = vec![1, 3, 0b0101_1111, 0b1011, 45, 1, 255, 0, 0, 0, 0, 0];
    golden.extend_from_slice(b"\x0bHTTP://a/#x");
    golden.extend_from_slice(b"\x05Moved\x03ICY\x03GET\x01\x02\x03\x04\x06length\x05md5:0");
    golden.extend_from_slice(b"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\xff");
    golden.extend_from_slice(b"\x1e\x01p\x01u\xff\xff\xff\xff\xff\xff\xff\xff\x01i");
    golden.extend_from_slice(b"\x02\x01A\x01\xff\x01A\x00");
    assert_eq!(encoded.meta, golden);
    assert_eq!(decode(&golden, &[], b"http://a/", 7), Ok(full_page()));
}

#[test]
fn headers_that_do_not_fit_stand_before_the_body_whole() {
    let mut page = full_page();
    page.headers.push("Set-Cookie", vec![b'x'; filemap_core::Record::MAX_META_BYTES]);
    let encoded = encode(&page, b"k").expect("fits before the body");
    assert_eq!(encoded.meta.len(), FIXED_BYTES);
    assert_eq!(spill_bytes(&encoded.meta), Ok(encoded.spill.len() as u32));
    assert_eq!(decode(&encoded.meta, &encoded.spill, b"k", 7), Ok(page));
    assert!(decode(&encoded.meta, &encoded.spill[1..], b"k", 7).is_err());
}

#[test]
fn the_largest_meta_is_used_before_anything_spills() {
    let mut page = Page::new("k", 0, 200, "");
    page.headers.push("N", Vec::new());
    let empty = encode(&page, b"k").expect("fits").meta.len();
    let room = filemap_core::Record::MAX_META_BYTES - empty - 2;
    page.headers.0[0].value = vec![0; room];
    let encoded = encode(&page, b"k").expect("fits");
    assert_eq!((encoded.meta.len(), encoded.spill.len()), (filemap_core::Record::MAX_META_BYTES, 0));
    page.headers.0[0].value.push(0);
    assert!(!encode(&page, b"k").expect("spills").spill.is_empty());
}

#[test]
fn more_than_64_mib_of_headers_is_an_error() {
    let mut page = Page::new("k", 0, 200, "");
    page.headers.push("N", vec![0; MAX_BYTES as usize]);
    assert!(matches!(encode(&page, b"k"), Err(crate::Error::HeadersTooLarge { .. })));
}

#[test]
fn another_version_is_an_error_that_says_so() {
    let mut meta = encode(&full_page(), b"k").expect("fits").meta;
    meta[0] = 2;
    assert_eq!(decode(&meta, &[], b"k", 0), Err(MetaError::Version { found: 2 }));
}

#[test]
fn where_a_body_was_found_is_not_written() {
    let mut page = full_page();
    let before = encode(&page, b"k").expect("fits");
    if let Some(revisit) = &mut page.revisit {
        revisit.original = Some(Original { key: b"x".to_vec(), fetched_at_ms: 1 });
    }
    assert_eq!(encode(&page, b"k").expect("fits"), before);
}

fn text() -> impl Strategy<Value = String> {
    "\\PC{0,20}"
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(any::<u8>(), 0..40)
}

fn revisit() -> impl Strategy<Value = Revisit> {
    let profile = prop_oneof![
        Just(RevisitProfile::IdenticalPayload),
        Just(RevisitProfile::ServerNotModified),
        text().prop_map(RevisitProfile::Other),
    ];
    let parts = (profile, proptest::option::of(bytes()), any::<Option<i64>>(), proptest::option::of(text()));
    parts.prop_map(|(profile, refers_to_url, refers_to_ms, refers_to_id)| Revisit {
        profile,
        refers_to_url,
        refers_to_ms,
        refers_to_id,
        original: None,
    })
}

fn page() -> impl Strategy<Value = Page> {
    let version = prop_oneof![
        Just(HttpVersion::Http10),
        Just(HttpVersion::Http11),
        Just(HttpVersion::Http2),
        Just(HttpVersion::Http3),
        text().prop_map(HttpVersion::Other),
    ];
    let digest = prop_oneof![text(), "sha1:[A-Z2-7]{32}"];
    let id = prop_oneof![text(), "<urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}>"];
    let first = (bytes(), any::<i64>(), 0..6usize, proptest::option::of(1..=u16::MAX), bytes());
    let second = (
        proptest::option::of(version),
        proptest::option::of(text()),
        any::<Option<std::net::IpAddr>>(),
        proptest::collection::vec((bytes(), bytes()), 0..6),
    );
    let third = (
        proptest::option::of(text()),
        proptest::option::of(digest),
        proptest::option::of(id),
        proptest::option::of(revisit()),
        any::<Option<(u64, u64, u64)>>(),
    );
    (first, second, third).prop_map(|(first, second, third)| {
        let (url, fetched_at_ms, kind, status, reason) = first;
        let (http_version, method, ip, headers) = second;
        let (truncated, digest, record_id, revisit, place) = third;
        let in_place = |(archive, offset, length)| InPlace { archive: ArchiveId(archive), offset, length };
        let headers = headers.into_iter().map(|(name, value)| Header { name, value }).collect();
        Page {
            url,
            variant: None,
            fetched_at_ms,
            kind: RecordKind::ALL[kind],
            status,
            reason,
            http_version,
            method,
            ip,
            headers,
            body: Vec::new(),
            truncated,
            digest,
            record_id,
            revisit,
            in_place: place.map(in_place),
        }
    })
}

proptest! {
    #[test]
    fn a_page_reads_back_as_it_was(page in page(), key in bytes()) {
        let encoded = encode(&page, &key).expect("fits");
        prop_assert_eq!(decode(&encoded.meta, &encoded.spill, &key, page.fetched_at_ms), Ok(page));
    }

    #[test]
    fn any_bytes_decode_or_are_refused(meta in bytes(), spill in bytes()) {
        let _ = decode(&meta, &spill, b"k", 0);
    }

    #[test]
    fn a_damaged_description_that_decodes_is_still_a_page(page in page(), at: prop::sample::Index, value: u8) {
        let mut meta = encode(&page, b"k").expect("fits").meta;
        let at = at.index(meta.len());
        meta[at] = value;
        if let Ok(decoded) = decode(&meta, &[], b"k", 0) {
            let again = encode(&decoded, b"k").expect("fits").meta;
            prop_assert_eq!(decode(&again, &[], b"k", 0), Ok(decoded));
        }
    }
}

#[test]
fn the_documentation_has_the_layout() {
    let documented: String = include_str!("mod.rs").lines().filter_map(|line| line.strip_prefix("//! ")).collect();
    for row in filemap_io::layout::table(Fixed::ROWS, Fixed::OPEN) {
        assert!(documented.contains(&row), "{row}");
    }
}
