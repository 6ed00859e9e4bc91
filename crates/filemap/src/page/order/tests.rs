//! Compares ordered forms with an order that is spelled out, and ranges with filters, over real
//! URLs and hostile keys.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use fastrand::Rng;
use regex::bytes::Regex;

use super::*;

/// URLs from Wikipedia, and hosts and paths of the WHATWG URL tests.
const REAL: &str = include_str!("urls.txt");

/// The sort key of a key, spelled out: class, shape, labels, path, scheme, port, and the part
/// after the URL. Within a class, all keys without the shape sort after those with it.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Slow {
    class: u8,
    shape: Shape,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Shape {
    Url { labels: Vec<Vec<u8>>, path: Vec<u8>, scheme: Vec<u8>, port: Option<u16>, tail: Vec<u8> },
    Other(Vec<u8>),
}

impl Slow {
    fn is_url(&self) -> bool {
        matches!(self.shape, Shape::Url { .. })
    }
}

static SHAPE: LazyLock<Regex> = LazyLock::new(|| {
    let host = r"(?<host>\[[0-9a-f:]*\]|[!-~&&[^:/?#@\\\[\]]]+)";
    let shape =
        format!(r"(?s-u)^(?<scheme>https?)://{host}(?<colon>:(?<port>0|[1-9][0-9]*))?(?<path>[/?#\\][\t-\xff]*)?$");
    Regex::new(&shape).expect("a regex")
});

fn slow(key: &[u8]) -> Slow {
    let class = if key::is_page(key) { 0 } else { 2 - u8::from(key::is_variant(key)) };
    Slow { class, shape: shape(key) }
}

fn shape(key: &[u8]) -> Shape {
    let url = key.split(|&byte| byte == 0).next().expect("a part");
    let tail = key[url.len()..].to_vec();
    let Some(parts) = SHAPE.captures(url) else { return Shape::Other(key.to_vec()) };
    let text = |name: &str| parts.name(name).map_or("", |part| str::from_utf8(part.as_bytes()).expect("ASCII"));
    let host = text("host");
    let mut labels: Vec<Vec<u8>> = host.split('.').rev().map(|label| label.as_bytes().to_vec()).collect();
    if host.starts_with('[') || host.parse::<Ipv4Addr>().is_ok() {
        labels = vec![host.as_bytes().to_vec()];
    } else if !labels[0].is_empty() && labels[0].iter().all(u8::is_ascii_digit) {
        return Shape::Other(key.to_vec());
    }
    let port = text("port").parse().ok();
    if port.is_none() && !text("colon").is_empty() {
        return Shape::Other(key.to_vec());
    }
    let path = parts.name("path").map_or(Vec::new(), |path| path.as_bytes().to_vec());
    Shape::Url { labels, path, scheme: text("scheme").into(), port, tail }
}

fn form(key: &[u8]) -> Vec<u8> {
    let mut out = b"before".to_vec();
    ordered(key, &mut out);
    out.split_off(6)
}

fn checked_form(key: &[u8]) -> Vec<u8> {
    let form = form(key);
    let mut back = b"before".to_vec();
    assert!(super::key(&form, &mut back), "{}", key.escape_ascii());
    assert_eq!(back.split_off(6).escape_ascii().to_string(), key.escape_ascii().to_string());
    assert!(form.len() <= key.len() + 1);
    form
}

const HOSTS: [&str; 32] = [
    "a",
    "b",
    "com",
    "a.com",
    "b.a.com",
    "c.b.a.com",
    "a-b.com",
    "aa.com",
    "com.a",
    "a.com.",
    ".",
    "..",
    "a..com",
    ".com",
    "1.2.3.4",
    "1.2.3.40",
    "2.3.4",
    "4",
    "3.4",
    "0.0.0.4",
    "x.1.2.3.4",
    "1.2.3.04",
    "1.a",
    "a.1",
    "[::1]",
    "[1:2::3]",
    "[1.1]",
    "1]",
    "[",
    "A.com",
    "a_!~.com",
    "",
];
const AFTER_HOST: [&str; 14] =
    ["", "", "", "", ":", ":0", ":80", ":443", ":080", ":65535", ":65536", ":1x", "x:1", ":99999999999999999999"];
const PATHS: [&[u8]; 24] = [
    b"",
    b"/",
    b"/a",
    b"/a",
    b"/a/",
    b"/a/b",
    b"/ab",
    b"/a?b",
    b"/a?b#c",
    b"/a#",
    b"/\xff",
    b"/\xff\xff",
    b"/a\t",
    b"/a b",
    b"/a\x08",
    b"/\x01",
    b"?",
    b"#",
    b"\\",
    b"x",
    b"/a\xff",
    b"/A",
    b"/@:",
    b"/http://a.com/",
];
const TAILS: [&[u8]; 14] = [
    b"",
    b"",
    b"",
    b"",
    b"",
    b"\0\0POST",
    b"\0\0POST 2",
    b"\0\0\0",
    b"\0\0\x01",
    b"\0\0\xff",
    b"\0\0",
    b"\0",
    b"\0request",
    b"\0request\0POST",
];
const SCHEMES: [&str; 12] = [
    "http://",
    "http://",
    "http://",
    "https://",
    "https://",
    "https://",
    "ftp://",
    "http:/",
    "HTTP://",
    "httpx://",
    "http://u@",
    "https://u:p@",
];

/// Keys of valid, nearly valid, or arbitrary parts.
fn random_key(rng: &mut Rng) -> Vec<u8> {
    let mut pick = |parts: &[&[u8]]| parts[rng.usize(..parts.len())].to_vec();
    let mut key = pick(&SCHEMES.map(str::as_bytes));
    key.extend(pick(&HOSTS.map(str::as_bytes)));
    key.extend(pick(&AFTER_HOST.map(str::as_bytes)));
    key.extend(pick(&PATHS));
    key.extend(pick(&TAILS));
    spoil(rng, &mut key);
    key
}

/// Changes, inserts and removes bytes in one of four keys; one in eight of these becomes all
/// random.
fn spoil(rng: &mut Rng, bytes: &mut Vec<u8>) {
    const ODD: &[u8] = b"\0\x01\x02\x03\x04\x05\x06\x07\x08\t\x80\x81\x82\xff./:@[]0a";
    if rng.u8(..4) > 0 {
        return;
    }
    if rng.u8(..8) == 0 {
        *bytes = (0..rng.usize(1..20)).map(|_| rng.u8(..)).collect();
    }
    for _ in 0..rng.usize(1..3) {
        let byte = if rng.bool() { rng.u8(..) } else { ODD[rng.usize(..ODD.len())] };
        let at = rng.usize(..=bytes.len());
        match rng.u8(..3) {
            0 => bytes.insert(at, byte),
            1 if at < bytes.len() && bytes.len() > 1 => drop(bytes.remove(at)),
            _ if at < bytes.len() => bytes[at] = byte,
            _ => bytes.push(byte),
        }
    }
}

fn random_keys(seed: u64, count: usize) -> BTreeSet<Vec<u8>> {
    let mut rng = Rng::with_seed(seed);
    let real = REAL.lines().map(|url| url.as_bytes().to_vec());
    real.chain((0..count).map(|_| random_key(&mut rng))).collect()
}

#[test]
fn urls_stand_by_host_path_scheme_and_port_and_variants_behind_all_pages() {
    let in_order: [&[u8]; 39] = [
        b"http://1.2.3.4/",
        b"http://1.2.3.40/",
        b"http://[::1]/",
        b"http://com/",
        b"http://example.com",
        b"http://example.com/",
        b"http://example.com:80/",
        b"http://example.com:8080/",
        b"https://example.com/",
        b"https://example.com:443/",
        b"http://example.com/\t",
        b"http://example.com/#top",
        b"http://example.com/?q",
        b"http://example.com/a",
        b"https://example.com/a",
        b"http://example.com/a/b",
        b"http://example.com/a?b",
        b"http://example.com/ab",
        b"http://example.com/\xff",
        b"https://a.example.com/",
        b"http://b.a.example.com/",
        b"http://www.example.com/",
        b"http://example-a.com/",
        b"http://example.org/",
        b"ftp://example.com/",
        b"http://example.com:080/",
        b"http://user@example.com/",
        b"urn:isbn:1",
        b"http://example.com/\0\0POST a",
        b"http://example.com/\0\0POST b",
        b"https://example.com/\0\0POST",
        b"https://example.com:443/\0\0POST",
        b"http://example.org/\0\0POST",
        b"urn:isbn:1\0\0POST",
        b"http://example.com/\0request",
        b"http://example.com/\0request\0POST",
        b"http://example.com/\0variants",
        b"http://a.example.com/\0request",
        b"\0variants1234",
    ];
    for pair in in_order.windows(2) {
        let (low, high) = (checked_form(pair[0]), checked_form(pair[1]));
        assert!(low < high, "{} {}", pair[0].escape_ascii(), pair[1].escape_ascii());
    }
    assert_eq!(form(b"https://www.example.com/a"), b"com\x02example\x02www\x01/a\x05");
    assert_eq!(form(b"http://[::1]:8080/\0\0v"), b"\x81[::1]\x01/\x04\x1f\x90\0v");
    assert_eq!(form(b"http://a/\0request"), b"\x83a\x01/\x03\0request");
    assert_eq!(form(b"http://a@b/"), b"\x80http://a@b/");
}

#[test]
fn the_forms_of_real_urls_are_short_and_give_them_back() {
    let mut ordered = 0;
    for url in REAL.lines() {
        let form = checked_form(url.as_bytes());
        if form[0] < OTHER {
            let (_, rest) = url.split_once("://").expect("a scheme");
            assert!(form.len() <= rest.len() + 2, "{url}");
            ordered += 1;
        }
    }
    // All except those with a user or another scheme.
    assert_eq!((REAL.lines().count(), ordered), (64, 59));
}

#[test]
fn forms_of_any_keys_give_them_back_and_sort_as_spelled_out() {
    let mut sorted: Vec<(Vec<u8>, Slow, Vec<u8>)> =
        random_keys(1, 60_000).into_iter().map(|key| (checked_form(&key), slow(&key), key)).collect();
    sorted.sort();
    for pair in sorted.windows(2) {
        assert!(pair[0].0 < pair[1].0);
        assert!(pair[0].1 < pair[1].1, "{} {}", pair[0].2.escape_ascii(), pair[1].2.escape_ascii());
    }
    for class in 0..3 {
        let both = [true, false]
            .map(|is_url| sorted.iter().filter(|(_, slow, _)| slow.class == class && slow.is_url() == is_url).count());
        assert!(both.iter().all(|count| *count > 1000), "{class} {both:?}");
    }
}

#[test]
fn each_class_is_a_range() {
    for key in random_keys(2, 20_000) {
        let form = form(&key);
        let of_key = match (key::is_page(&key), key::is_variant(&key)) {
            (true, _) => Class::Pages,
            (_, true) => Class::Variants,
            _ => Class::Beside,
        };
        assert_eq!(class(&form), Some(of_key), "{}", key.escape_ascii());
        for class in Class::ALL {
            assert_eq!(class.all().contains(&form), class == of_key, "{}", key.escape_ascii());
            let parts = (class.shaped().contains(&form), class.others_with_prefix(b"").contains(&form));
            let is_url = slow(&key).is_url();
            assert_eq!(parts, (class == of_key && is_url, class == of_key && !is_url), "{}", key.escape_ascii());
        }
    }
}

#[test]
fn the_longest_keys_have_forms() {
    let mut rng = Rng::with_seed(3);
    for beginning in [&b"http://"[..], b"https://a/", b"http://a:1/\0\0", b"", b"\0"] {
        for byte in [Some(b'a'), Some(b'.'), Some(0), Some(1), Some(0xff), None] {
            let mut key = beginning.to_vec();
            key.resize_with(65_536, || byte.unwrap_or_else(|| rng.u8(..)));
            checked_form(&key);
        }
    }
    for byte in 0..=255 {
        checked_form(&[byte]);
    }
}

#[test]
fn a_range_has_what_its_filter_takes_and_the_others_the_rest() {
    let keys: Vec<(Vec<u8>, Vec<u8>)> = random_keys(4, 8_000).into_iter().map(|key| (form(&key), key)).collect();
    let within = |host: &[u8], domain: &[u8]| {
        host.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with(b"."))
    };
    let mut hosts: BTreeSet<String> = HOSTS.map(str::to_owned).into();
    hosts.extend(["1.4".into(), "COM".into(), "bücher.example".into(), "\u{7f}".into(), "a.com:80".into()]);
    for (_, key) in &keys {
        let Some(host) = urlindex::host(key::url(key)) else { continue };
        hosts.extend(str::from_utf8(host).ok().map(str::to_owned));
    }
    assert!(hosts.len() > 200);
    for host in hosts {
        let canonical = canonical_host(&host).unwrap_or_else(|| host.clone());
        let classes = Class::ALL;
        let ranges = classes.map(|class| (class.of_host(&host), class.of_domain(&host), class.others_with_prefix(b"")));
        for (form, key) in &keys {
            let (of_host, of_domain, others) = &ranges[usize::from(slow(key).class)];
            let found = urlindex::host(key::url(key));
            let wanted =
                (found == Some(canonical.as_bytes()), found.is_some_and(|found| within(found, canonical.as_bytes())));
            let in_others = others.contains(form);
            let listed = (of_host.contains(form), of_domain.contains(form));
            let expected = (wanted.0 && !in_others, wanted.1 && !in_others);
            assert_eq!(listed, expected, "{host:?} {}", key.escape_ascii());
        }
    }
}

#[test]
fn what_is_of_a_url_is_a_range_in_each_class() {
    let keys: Vec<_> = random_keys(8, 3000).into_iter().map(|key| (form(&key), key)).collect();
    for (_, key) in keys.iter().step_by(9) {
        let url = key::url(key);
        for class in Class::ALL {
            let range = class.of_url(url);
            // No page has the empty URL.
            for (form, other) in keys.iter().filter(|_| !url.is_empty()) {
                let is_of = key::url(other) == url && super::class(form) == Some(class);
                assert_eq!(range.contains(form), is_of, "{class:?} {} {}", url.escape_ascii(), other.escape_ascii());
            }
        }
    }
}

#[test]
fn the_pages_of_a_pages_host_are_those_of_its_labels() {
    let keys: Vec<_> = random_keys(7, 2000).into_iter().filter(|key| key::is_page(key)).collect();
    let forms: Vec<_> = keys.iter().map(|key| form(key)).collect();
    let host = |key: &Vec<u8>| urlindex::host(key).map(<[u8]>::to_vec);
    for (key, form) in keys.iter().zip(&forms).step_by(7) {
        let range = of_same_host(form);
        assert_eq!(range.is_some(), slow(key).is_url());
        for (other, form) in keys.iter().zip(&forms) {
            let is_of = range.as_ref().is_some_and(|range| range.contains(form));
            assert_eq!(is_of, range.is_some() && slow(other).is_url() && host(key) == host(other));
        }
    }
}

/// A list within a group reads only the keys of that group: none may have another name.
#[test]
fn all_keys_of_a_range_within_a_group_have_its_name() {
    let groups = ORDER.groups.expect("groups");
    let of = |range: &Range<Vec<u8>>| (groups.of_range)(&range.start, &range.end);
    let keys: Vec<_> = random_keys(9, 2000).into_iter().map(|key| (form(&key), key)).collect();
    let mut named = 0;
    for (form, key) in keys.iter().step_by(11) {
        let host = urlindex::host(key::url(key)).and_then(|host| str::from_utf8(host).ok()).unwrap_or("a.com");
        let canonical = canonical_host(host).unwrap_or_else(|| host.to_owned());
        for class in Class::ALL {
            let (of_host, others) = (class.of_host(host), class.others_with_prefix(b""));
            if !canonical.is_empty() && !of_host.is_empty() {
                assert_eq!(of(&of_host), Some(canonical.clone().into_bytes()), "{host}");
            }
            assert!(of(&others).is_some() && of(&class.all()).is_none() && of(&class.shaped()).is_none());
            let mut ranges = vec![of_host, others, class.of_domain(host), class.of_url(key::url(key))];
            ranges.push(class.others_with_prefix(&key[..key.len().min(9)]));
            ranges.extend(class.with_prefix(key));
            ranges.push(form.clone()..keys[keys.len() / 2].0.clone());
            // The rest after a cursor, both ways.
            let inside: Vec<_> = ranges.iter().filter(|range| range.contains(form)).cloned().collect();
            ranges.extend(inside.iter().map(|range| [&form[..], &[0]].concat()..range.end.clone()));
            ranges.extend(inside.iter().map(|range| range.start.clone()..form.clone()));
            for range in ranges {
                let Some(name) = of(&range) else { continue };
                named += 1;
                for (form, key) in &keys {
                    let is_of = !range.contains(form) || (groups.of_key)(key) == name;
                    assert!(is_of, "{} {}", name.escape_ascii(), key.escape_ascii());
                }
            }
        }
    }
    assert!(named > 1000, "{named}");
}

#[test]
fn the_group_of_a_url_is_its_host_if_it_has_the_shape() {
    let of_key = ORDER.groups.expect("groups").of_key;
    let expected: [(&[u8], &[u8]); 10] = [
        (b"https://www.example.com/a?b", b"www.example.com"),
        (b"http://www.example.com:8080", b"www.example.com"),
        (b"http://www.example.com/\0\0POST", b"www.example.com"),
        (b"http://www.example.com/\0request", b"www.example.com"),
        (b"http://1.2.3.4/", b"1.2.3.4"),
        (b"http://[::1]/", b"[::1]"),
        (b"http://user@www.example.com/", b""),
        (b"ftp://www.example.com/\0\0POST", b"\0"),
        (b"ftp://www.example.com/\0request", b"\0\0"),
        (b"\0variants1234", b"\0\0"),
    ];
    for (key, group) in expected {
        assert_eq!(of_key(key), group, "{}", key.escape_ascii());
    }
}

#[test]
fn a_prefix_has_a_range_from_its_path_on() {
    let keys: Vec<(Vec<u8>, Slow, Vec<u8>)> = random_keys(5, 1000)
        .into_iter()
        .filter(|key| key::is_page(key))
        .map(|key| (form(&key), slow(&key), key))
        .collect();
    let all_prefixes = keys.iter().flat_map(|(_, _, key)| (0..=key.len()).map(|end| &key[..end]));
    let mut ranges = 0;
    for prefix in all_prefixes.collect::<BTreeSet<_>>() {
        let (range, among_others) = (Class::Pages.with_prefix(prefix), Class::Pages.others_with_prefix(prefix));
        ranges += usize::from(range.as_ref().is_some_and(|range| !range.is_empty()));
        let parts = slow(prefix);
        for (form, slow, key) in &keys {
            let is_url = slow.is_url();
            assert_eq!(among_others.contains(form), !is_url && key.starts_with(prefix));
            let Some(range) = &range else { continue };
            let shares = match (&parts.shape, &slow.shape) {
                (Shape::Url { labels: a, path: begin, .. }, Shape::Url { labels: b, path, .. }) => {
                    a == b && path.starts_with(begin)
                }
                _ => false,
            };
            let said = || format!("{} {}", prefix.escape_ascii(), key.escape_ascii());
            assert_eq!(range.contains(form), shares && !prefix.contains(&0), "{}", said());
            let is_wanted = is_url && key::url(key).starts_with(prefix);
            assert!(!is_wanted || range.contains(form), "{}", said());
        }
    }
    assert!(ranges > 500, "{ranges}");
    for none in
        ["", "h", "http", "https:/", "http://", "https://", "http://a", "http://a:80", "http://[::1]", "http://u@a"]
    {
        assert_eq!(Class::Pages.with_prefix(none.as_bytes()), None, "{none}");
    }
    for empty in ["ftp://a/", "x", "http://u@a/", "http:///", "http://a/\x01", "http://a:080/"] {
        assert_eq!(Class::Pages.with_prefix(empty.as_bytes()), Some(Range::default()), "{empty}");
    }
    let range = Class::Pages.with_prefix(b"https://b.a:8080/x\xff").expect("a range");
    assert_eq!(range, b"a\x02b\x01/x\xff".to_vec()..b"a\x02b\x01/y".to_vec());
}

#[test]
fn bytes_that_are_no_form_are_refused() {
    let mut rng = Rng::with_seed(6);
    let (mut taken, mut refused) = (0, 0);
    for round in 0..300_000 {
        let mut bytes = match round % 4 {
            0 => (0..rng.usize(..12)).map(|_| rng.u8(..)).collect(),
            1 => (0..rng.usize(..12)).map(|_| b"\0\x01\x02\x03\x04\x05\x06a1./[]:"[rng.usize(..14)]).collect(),
            _ => form(&random_key(&mut rng)),
        };
        spoil(&mut rng, &mut bytes);
        let mut out = b"before".to_vec();
        if super::key(&bytes, &mut out) {
            assert_eq!(form(&out[6..]).escape_ascii().to_string(), bytes.escape_ascii().to_string());
            taken += 1;
        } else {
            assert_eq!(out, b"before");
            refused += 1;
        }
    }
    assert!(taken > 50_000 && refused > 50_000, "{taken} {refused}");
    let others: [&[u8]; 16] = [
        b"",
        b"\x80",
        b"\x81",
        b"\x85x",
        b"a\x01/\x07",
        b"4\x023\x022\x021\x01/\x03",
        b"a.b\x01/\x03",
        b"\x80http://a/",
        b"a\x01/\x03\0x",
        b"\x81a\x01/\x03",
        b"\x81a\x01/\x03x",
        b"\x83a\x01/\x03",
        b"\x83a\x01/\x03\0\0x",
        b"\x82http://a/\0\0x",
        b"\x82x",
        b"\x84x\0\0x",
    ];
    for bytes in others {
        assert!(!super::key(bytes, &mut Vec::new()), "{}", bytes.escape_ascii());
    }
}
