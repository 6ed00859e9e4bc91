//! Pairs answers with their requests: the request decides whether an answer is the page itself or
//! a variant.
//!
//! A request and its answer are two records. `WARC-Concurrent-To` of either names the other; if
//! neither has that field, two consecutive records with the same URL and date belong together.
//! Writers may leave the field out, name missing records, date the two apart, or write one URL
//! with a fragment or another scheme. So an answer without such a link takes, when it is released,
//! the nearest unanswered request of its URL, in time and then in place. If that request is so
//! young that its own answer may still come, the answer waits up to twice as long. Writers differ
//! in which comes first, so an answer is held until its request arrives, or for [`HELD_RECORDS`]
//! records. Beyond [`HELD_BYTES`] of memory, held answers are set aside on disk, up to
//! [`HELD_DISK_BYTES`]. A request that comes before its answer is remembered for longer. Records
//! from a dump name their variants themselves.
//!
//! Invariants: records keep their order; memory is bounded; an answer that names another record
//! and is released before its request arrives is counted; a request that comes too late is
//! reported, with the position of its answer; other requests without an answer are counted.

use std::collections::{HashMap, HashSet, VecDeque};

use urlindex::{Canonicalizer as _, Whatwg};
use xxhash_rust::xxh3::xxh3_64;

use crate::error::Result;
use crate::page::variant::Variant;
use crate::warc::Place;
use crate::warc::header::RecordHeader;

/// Number of records for which an answer waits for its request.
const HELD_RECORDS: u64 = 64;
/// Maximum number of held items, including problems between records.
const HELD_ITEMS: usize = 4096;
/// Memory for held bodies; one record may exceed it.
const HELD_BYTES: u64 = 8 << 20;
/// Memory for held bodies and headers, which are never set aside on disk.
const HELD_WITH_HEADERS: u64 = 2 * HELD_BYTES;
/// Disk space for held bodies; one record may exceed it.
const HELD_DISK_BYTES: u64 = 256 << 20;
/// Memory for the variants of requests other than `GET`.
const REMEMBERED_BYTES: usize = 16 << 20;
/// Number of ids remembered of released answers, and of plain `GET`s.
const LATEST_IDS: usize = 1 << 16;

/// The fields of a record that link it with others.
#[derive(Clone, Debug, Default)]
pub(super) struct Links {
    id: Vec<u8>,
    names: Vec<Vec<u8>>,
    url: Vec<u8>,
    /// Hash of the URL without scheme and fragment.
    page: Option<u64>,
    date: Vec<u8>,
    time_ms: i64,
    place: Option<Place>,
}

/// Size of a record while it is held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) memory: u64,
    pub(super) disk: u64,
}

impl Links {
    pub(super) fn of(header: &RecordHeader, place: Place) -> Links {
        let field = |name: &str| header.fields.get(name).map(<[u8]>::to_vec).unwrap_or_default();
        let named = header.fields.iter().filter(|field| field.is("WARC-Concurrent-To"));
        let url = header.target_uri().map(<[u8]>::to_vec).unwrap_or_default();
        Links {
            id: bare_id(&field("WARC-Record-ID")),
            names: named.map(|field| bare_id(&field.value)).filter(|id| !id.is_empty()).collect(),
            page: page_of(&url),
            url,
            date: field("WARC-Date"),
            time_ms: header.date_ms().unwrap_or_default(),
            place: Some(place),
        }
    }

    fn belongs_to(&self, other: &Links) -> bool {
        let names = |one: &Links, other: &Links| !other.id.is_empty() && one.names.contains(&other.id);
        names(self, other) || names(other, self)
    }

    /// Returns whether two consecutive records may belong together, since neither names another.
    fn may_belong_to(&self, other: &Links) -> bool {
        self.names.is_empty() && other.names.is_empty() && self.url == other.url && self.date == other.date
    }
}

/// An id without the brackets that some writers omit.
fn bare_id(id: &[u8]) -> Vec<u8> {
    let id = id.trim_ascii();
    id.strip_prefix(b"<").and_then(|id| id.strip_suffix(b">")).unwrap_or(id).to_vec()
}

fn page_of(url: &[u8]) -> Option<u64> {
    let canonical = Whatwg.canonicalize(url).unwrap_or_else(|_| url.to_vec());
    let bare = canonical.strip_prefix(b"http://").or_else(|| canonical.strip_prefix(b"https://"));
    (!url.is_empty()).then(|| xxh3_64(bare.unwrap_or(&canonical)))
}

/// Role of a record in a pair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// An answer: waits for its request.
    Answer,
    /// A request, and the variant of its answer.
    Request(Option<Variant>),
    /// A record beside an answer: takes its variant.
    Beside,
    /// Any other record.
    Other,
}

/// A held record, with the caller's value for it.
pub(super) struct Held<T> {
    pub(super) what: T,
    pub(super) variant: Option<Variant>,
    number: u64,
    size: Size,
    links: Links,
    waits: bool,
}

/// The held records, and what is remembered of released ones.
pub(super) struct Pairing<T> {
    held: VecDeque<Held<T>>,
    held_size: Size,
    /// Number of records taken.
    number: u64,
    requests: VecDeque<Asked>,
    variants: Remembered,
    /// Ids of plain `GET`s, and of the records that they name.
    plain: Latest<()>,
    passed: Passed,
    /// Forgotten requests without an answer: their number; ids of the latest, and those they name.
    unanswered: u64,
    dropped: Latest<()>,
}

/// A recent request.
struct Asked {
    number: u64,
    links: Links,
    variant: Option<Variant>,
    has_answer: bool,
}

impl Asked {
    /// Returns whether it has no answer and asks for this page.
    fn is_open_for(&self, page: Option<u64>) -> bool {
        !self.has_answer && page.is_some() && self.links.page == page
    }

    /// Returns whether its own answer may still come: as the next record, or as one that it names.
    fn is_young(&self, last: u64) -> bool {
        self.number == last || !self.links.names.is_empty() && self.number + HELD_RECORDS > last
    }

    fn is_open(&self) -> bool {
        self.variant.is_some() && !self.has_answer
    }

    /// Distance of an answer, in time and then in records.
    fn distance(&self, number: u64, answer: &Links) -> (u64, u64) {
        (self.links.time_ms.abs_diff(answer.time_ms), self.number.abs_diff(number))
    }
}

impl<T> Pairing<T> {
    pub(super) fn new() -> Pairing<T> {
        Pairing {
            held: VecDeque::new(),
            held_size: Size::default(),
            number: 0,
            requests: VecDeque::new(),
            variants: Remembered::default(),
            plain: Latest::default(),
            passed: Passed::default(),
            unanswered: 0,
            dropped: Latest::default(),
        }
    }

    /// Takes the next record. If it is a request other than a plain `GET` whose answer was already
    /// released, returns the position of that answer.
    pub(super) fn push(&mut self, what: T, role: Role, links: Links, size: Size) -> Option<Place> {
        self.number += 1;
        let mut held = Held { what, variant: None, number: self.number, size, links, waits: role == Role::Answer };
        let mut misplaced = None;
        match role {
            Role::Answer => self.find_request(&mut held),
            Role::Request(variant) => misplaced = self.take_request(&mut held, variant),
            Role::Beside => {
                held.variant = held.links.names.iter().find_map(|id| self.variants.variants.get(id)).cloned();
            }
            Role::Other => {}
        }
        self.held_size.memory += size.memory;
        self.held_size.disk += size.disk;
        self.held.push_back(held);
        misplaced
    }

    /// Takes an item that is not a record.
    pub(super) fn push_other(&mut self, what: T) {
        let (number, links, size) = (self.number, Links::default(), Size::default());
        self.held.push_back(Held { what, variant: None, number, size, links, waits: false });
    }

    /// The next record if it no longer waits; with `is_end`, no record waits.
    pub(super) fn next(&mut self, is_end: bool) -> Option<Held<T>> {
        let front = self.held.front()?;
        // A record of any size waits for the next one.
        let is_full = front.number < self.number
            && (self.held_size.memory > HELD_WITH_HEADERS || self.held_size.disk > HELD_DISK_BYTES)
            || self.held.len() > HELD_ITEMS;
        let age = self.number - front.number;
        let is_old = is_full || age >= HELD_RECORDS && (age >= 2 * HELD_RECORDS || !self.may_have_late_request(front));
        if front.waits && !is_old && !is_end {
            return None;
        }
        let mut held = self.held.pop_front()?;
        self.held_size.memory -= held.size.memory;
        self.held_size.disk -= held.size.disk;
        if held.waits {
            self.take_nearest_request(&mut held, is_end);
        }
        if held.waits {
            self.passed.insert(held.number, &held.links);
        }
        Some(held)
    }

    /// Returns whether a request of the URL of a waiting answer is too young to be given to it.
    fn may_have_late_request(&self, answer: &Held<T>) -> bool {
        let is_late = |asked: &Asked| asked.is_open_for(answer.links.page) && asked.is_young(self.number);
        answer.waits && self.requests.iter().any(is_late)
    }

    /// Gives an answer without a linked request the nearest request of its URL that has no answer
    /// and is not nearer to another waiting one.
    fn take_nearest_request(&mut self, answer: &mut Held<T>, is_end: bool) {
        let (held, last, page) = (&self.held, self.number, answer.links.page);
        let is_nearest = |asked: &&mut Asked| {
            let own = asked.distance(answer.number, &answer.links);
            let mut others = held.iter().filter(|other| other.waits && other.links.page == page);
            asked.is_open_for(page)
                && (is_end || !asked.is_young(last))
                && !others.any(|other| asked.distance(other.number, &other.links) < own)
        };
        let candidates = self.requests.iter_mut().filter(is_nearest);
        let Some(asked) = candidates.min_by_key(|asked| asked.distance(answer.number, &answer.links)) else { return };
        asked.has_answer = true;
        answer.waits = false;
        answer.variant.clone_from(&asked.variant);
        if let Some(variant) = &answer.variant {
            self.variants.insert(&answer.links.id, variant);
        }
    }

    /// Moves held bodies to disk with `set_aside`, which returns the new size, starting at the
    /// last record, until they fit in [`HELD_BYTES`].
    pub(super) fn relieve(&mut self, mut set_aside: impl FnMut(&mut T) -> Result<Option<Size>>) -> Result<()> {
        for held in self.held.iter_mut().rev() {
            if self.held_size.memory <= HELD_BYTES {
                break;
            }
            if let Some(size) = set_aside(&mut held.what)? {
                self.held_size.memory = self.held_size.memory - held.size.memory + size.memory;
                self.held_size.disk = self.held_size.disk - held.size.disk + size.disk;
                held.size = size;
            }
        }
        Ok(())
    }

    /// Number of answers that name another record and were released as answers to a plain `GET`,
    /// because their request did not arrive.
    pub(super) fn without_request(&self) -> u64 {
        self.passed.without_request
    }

    /// Number of requests other than a plain `GET` without an answer, once all records were taken.
    pub(super) fn unanswered(&self) -> u64 {
        let still = self.requests.iter().filter(|asked| asked.is_open());
        self.unanswered + still.count() as u64
    }

    fn find_request(&mut self, answer: &mut Held<T>) {
        let number = answer.number;
        let links = &answer.links;
        let is_its = |asked: &&mut Asked| asked.links.belongs_to(links);
        let is_before =
            |asked: &&mut Asked| asked.number + 1 == number && !asked.has_answer && asked.links.may_belong_to(links);
        let found = match self.requests.iter_mut().rev().find(is_its) {
            None => self.requests.back_mut().filter(is_before),
            found => found,
        };
        if let Some(asked) = found {
            asked.has_answer = true;
            answer.variant.clone_from(&asked.variant);
            answer.waits = false;
        } else if let Some(variant) =
            links.names.iter().chain([&links.id]).find_map(|id| self.variants.variants.get(id))
        {
            let ids = links.names.iter().chain([&links.id]);
            if ids.filter_map(|id| self.dropped.known.remove(&xxh3_64(id))).count() > 0 {
                self.unanswered -= 1;
            }
            answer.variant = Some(variant.clone());
            answer.waits = false;
        } else if links.names.iter().chain([&links.id]).any(|id| self.plain.known.contains_key(&xxh3_64(id))) {
            answer.waits = false;
        }
        if let Some(variant) = &answer.variant {
            self.variants.insert(&answer.links.id, variant);
        }
    }

    fn take_request(&mut self, request: &mut Held<T>, variant: Option<Variant>) -> Option<Place> {
        let number = request.number;
        request.variant.clone_from(&variant);
        let links = &request.links;
        let is_its = |held: &&mut Held<T>| held.waits && held.links.belongs_to(links);
        let is_before =
            |held: &&mut Held<T>| held.waits && held.number + 1 == number && held.links.may_belong_to(links);
        let found = match self.held.iter_mut().rev().find(is_its) {
            None => self.held.iter_mut().rev().find(is_before),
            found => found,
        };
        let has_answer = found.is_some();
        let passed = if has_answer { None } else { self.passed.take(links) };
        if let Some(answer) = found {
            answer.variant.clone_from(&variant);
            answer.waits = false;
        }
        let ids = || request.links.names.iter().chain([&request.links.id]);
        match &variant {
            Some(variant) => ids().for_each(|id| self.variants.insert(id, variant)),
            None => {
                for id in ids().filter(|id| !id.is_empty()) {
                    self.plain.insert(xxh3_64(id), ());
                }
            }
        }
        let was_passed = passed.is_some();
        let misplaced = passed.filter(|_| variant.is_some());
        // A request whose answer was released is reported with that answer.
        let has_answer = has_answer || was_passed;
        self.requests.push_back(Asked { number, links: request.links.clone(), variant, has_answer });
        if self.requests.len() as u64 > HELD_RECORDS
            && let Some(asked) = self.requests.pop_front().filter(Asked::is_open)
        {
            self.unanswered += 1;
            for id in asked.links.names.iter().chain([&asked.links.id]).filter(|id| !id.is_empty()) {
                self.dropped.insert(xxh3_64(id), ());
            }
        }
        misplaced
    }
}

/// The variants of the latest records by their ids.
#[derive(Default)]
struct Remembered {
    variants: HashMap<Vec<u8>, Variant>,
    order: VecDeque<Vec<u8>>,
    bytes: usize,
}

impl Remembered {
    fn insert(&mut self, id: &[u8], variant: &Variant) {
        if id.is_empty() || self.variants.insert(id.to_vec(), variant.clone()).is_some() {
            return;
        }
        let bytes = |id: &[u8], variant: &Variant| 2 * id.len() + variant.as_bytes().len() + 128;
        self.order.push_back(id.to_vec());
        self.bytes += bytes(id, variant);
        while self.bytes > REMEMBERED_BYTES {
            let Some(id) = self.order.pop_front() else { return };
            let forgotten = self.variants.remove(&id).map_or(0, |variant| bytes(&id, &variant));
            self.bytes = self.bytes.saturating_sub(forgotten);
        }
    }
}

/// Values of the latest ids, by their hashes.
#[derive(Default)]
struct Latest<V> {
    known: HashMap<u64, V>,
    order: VecDeque<u64>,
}

impl<V> Latest<V> {
    /// Inserts a value and returns the one that is dropped for it.
    fn insert(&mut self, hash: u64, value: V) -> Option<V> {
        if self.known.insert(hash, value).is_some() {
            return None;
        }
        self.order.push_back(hash);
        let forgotten = if self.order.len() > LATEST_IDS { self.order.pop_front() } else { None };
        forgotten.and_then(|hash| self.known.remove(&hash))
    }
}

/// The latest answers that were released without a request.
#[derive(Default)]
struct Passed {
    /// Number and place of an answer, by the hash of its id, and by the complements of the hashes
    /// of the ids that it names.
    answers: Latest<(u64, Place)>,
    /// Numbers of the answers that name another record.
    open: HashSet<u64>,
    without_request: u64,
}

impl Passed {
    fn insert(&mut self, number: u64, links: &Links) {
        let Some(place) = links.place else { return };
        if !links.names.is_empty() {
            self.open.insert(number);
            self.without_request += 1;
        }
        let id = Some(xxh3_64(&links.id)).filter(|_| !links.id.is_empty());
        for hash in id.into_iter().chain(links.names.iter().map(|id| !xxh3_64(id))) {
            if let Some((forgotten, _)) = self.answers.insert(hash, (number, place)) {
                self.open.remove(&forgotten);
            }
        }
    }

    /// The position of a request's answer, if that was released; it no longer counts as
    /// unanswered.
    fn take(&mut self, request: &Links) -> Option<Place> {
        let named_by_it = Some(!xxh3_64(&request.id)).filter(|_| !request.id.is_empty());
        let hashes = named_by_it.into_iter().chain(request.names.iter().map(|id| xxh3_64(id)));
        let &(number, place) = hashes.filter_map(|hash| self.answers.known.get(&hash)).next()?;
        self.without_request -= u64::from(self.open.remove(&number));
        Some(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `a<b` is an answer with the id `a` that names `b`; `?` in front makes it a `POST`, `.` a
    /// `GET`; `+` a note. `n:` at the end is the date.
    fn links(text: &str) -> (Role, Links) {
        let (kind, rest) = match text.as_bytes()[0] {
            b'?' | b'.' | b'+' => text.split_at(1),
            _ => ("", text),
        };
        let (rest, date) = rest.split_once(':').unwrap_or((rest, ""));
        let (id, names) = rest.split_once('<').unwrap_or((rest, ""));
        let names = names.split(',').filter(|name| !name.is_empty()).map(|name| name.as_bytes().to_vec()).collect();
        let role = match kind {
            "?" => Role::Request(Some(Variant::new(id).expect("fits"))),
            "." => Role::Request(None),
            "+" => Role::Beside,
            _ => Role::Answer,
        };
        let place = Some(Place { offset: 7, inner: None });
        let (id, date) = (id.as_bytes().to_vec(), date.as_bytes().to_vec());
        (role, Links { id, names, date, place, ..Links::default() })
    }

    fn in_memory(memory: u64) -> Size {
        Size { memory, disk: 0 }
    }

    /// The records in the order of release, with their variants.
    fn run(records: &[&str]) -> String {
        let mut pairing = Pairing::new();
        let (mut out, mut late) = (Vec::new(), 0);
        for (at, text) in records.iter().enumerate() {
            let (role, links) = links(text);
            late += u32::from(pairing.push(text.to_string(), role, links, in_memory(1)).is_some());
            while let Some(held) = pairing.next(at + 1 == records.len()) {
                let name = held.what.split(['<', ':']).next().unwrap_or_default().to_owned();
                let variant = held.variant.map_or(String::new(), |variant| format!("={variant}"));
                out.push(name + &variant);
            }
        }
        assert!(pairing.held.is_empty() && pairing.held_size == Size::default());
        out.extend((late > 0).then(|| "late".to_owned()));
        let alone = pairing.without_request();
        out.extend((alone > 0).then(|| format!("{alone} alone")));
        out.join(" ")
    }

    #[test]
    fn an_answer_has_the_request_that_names_it_or_that_it_names() {
        for (records, expected) in [
            (&["?q", "a<q"][..], "?q=q a=q"),
            (&["?q<a", "a"], "?q=q a=q"),
            (&["a", "?q<a"], "a=q ?q=q"),
            (&["a<q", "?q"], "a=q ?q=q"),
            (&["a", "b", "?q<a", "?r<b"], "a=q b=r ?q=q ?r=r"),
            (&["a", "b", ".g<b", "?q<a"], "a=q b .g ?q=q"),
            (&["?q", ".g", "b<g", "a<q"], "?q=q .g b a=q"),
            (&["a<x", "?q<y"], "a ?q=q 1 alone"),
            (&["a<x", "b", "c<y,z"], "a b c 2 alone"),
        ] {
            assert_eq!(run(records), expected, "{records:?}");
        }
    }

    #[test]
    fn neighbours_of_one_url_and_date_belong_together_if_none_says_else() {
        for (records, expected) in [
            (&["a", "?q"][..], "a=q ?q=q"),
            (&["?q", "a"], "?q=q a=q"),
            (&["a:1", "?q:2"], "a ?q=q"),
            (&["?q:1", "a:2"], "?q=q a"),
            (&["a", "?q", "b", "?r"], "a=q ?q=q b=r ?r=r"),
            (&["?q", "a", "?r", "b"], "?q=q a=q ?r=r b=r"),
            (&["a", ".g", "b", "?q"], "a .g b=q ?q=q"),
            (&["a", "+n", "?q"], "a +n ?q=q"),
            (&["?q", "a", "b"], "?q=q a=q b"),
        ] {
            assert_eq!(run(records), expected, "{records:?}");
        }
    }

    #[test]
    fn an_answer_that_nothing_links_takes_the_nearest_request_of_its_url() {
        let at = |kind: &str, page: &str, time_ms: i64| {
            let (role, links) = links(kind);
            (kind.to_owned(), role, Links { page: page_of(page.as_bytes()), url: page.into(), time_ms, ..links })
        };
        let run = |records: Vec<(String, Role, Links)>| {
            let (mut pairing, mut out, count) = (Pairing::new(), Vec::new(), records.len());
            for (nth, (name, role, links)) in records.into_iter().enumerate() {
                pairing.push(name, role, links, Size::default());
                while let Some(held) = pairing.next(nth + 1 == count) {
                    let variant = held.variant.map_or(String::new(), |variant| format!("={variant}"));
                    let name = held.what.split(['<', ':']).next().unwrap_or_default();
                    if !name.starts_with("+o") {
                        out.push(name.to_owned() + &variant);
                    }
                }
            }
            (out.join(" "), pairing.unanswered())
        };
        // Records of one page, with others between them.
        let far = |first: &[&str], others: usize, last: &[&str]| {
            let of_page = |name: &&str| at(name, "http://a.example/p", 0);
            let others = (0..others).map(|n| at(&format!("+o{n}"), &format!("http://o.example/{n}"), 0));
            first.iter().map(of_page).chain(others).chain(last.iter().map(of_page)).collect::<Vec<_>>()
        };
        let asked = (0..100).map(|n| format!("?q{n}=q{n}"));
        let linked: Vec<String> = asked.chain((0..100).map(|n| format!("a{n}=q{n}"))).collect();
        let linked = linked.join(" ");
        let (http, https) = ("http://a.example/p", "https://a.example/p#part");
        for (records, expected, unanswered) in [
            (vec![at("a", http, 0), at("b", http, 60), at("?q", http, 61)], "a b=q ?q=q", 0),
            (vec![at("?q", http, 59), at("b", http, 60), at("a", http, 99)], "?q=q b=q a", 0),
            (vec![at("a<x", http, 0), at("?q<y", https, 0)], "a=q ?q=q", 0),
            (vec![at("a", http, 0), at("+m", http, 0), at("?q:1", http, 0)], "a=q +m ?q=q", 0),
            (vec![at(".g:1", http, 0), at("a", http, 0), at("?q:1", http, 90), at("b", http, 90)], ".g a ?q=q b=q", 0),
            (vec![at("a", http, 0), at("?q", "http://a.example/other", 0)], "a ?q=q", 1),
            (vec![at(".g", http, 0), at("?q", http, 0)], ".g ?q=q", 1),
            (far(&["a"], 63, &["?q", "b"]), "a ?q=q b=q", 0),
            (far(&["a"], 62, &["?q<b", "x:9", "b"]), "a ?q=q x b=q", 0),
            (far(&["a"], 20, &["?q<z"]), "a=q ?q=q", 0),
            (far(&["?q<z", "a"], 150, &[]), "?q=q a=q", 0),
            (
                (0..100)
                    .map(|n| at(&format!("?q{n}"), http, 0))
                    .chain((0..100).map(|n| at(&format!("a{n}<q{n}"), http, 0)))
                    .collect(),
                &linked,
                0,
            ),
        ] {
            assert_eq!(run(records), (expected.to_owned(), unanswered));
        }
    }

    #[test]
    fn what_is_beside_an_answer_has_its_variant() {
        assert_eq!(run(&["a", "?q<a", "+n<a", "+m<x"]), "a=q ?q=q +n=q +m");
        assert_eq!(run(&["?q", "a<q", "+n<a"]), "?q=q a=q +n=q");
    }

    #[test]
    fn an_answer_waits_for_some_records_and_a_request_for_many() {
        let far: Vec<String> = (0..200).map(|at| format!("x{at}:{at}")).collect();
        let with = |first: &'static str, count: usize, last: &'static str| -> String {
            let mut records = vec![first];
            records.extend(far[..count].iter().map(String::as_str));
            records.push(last);
            run(&records)
        };
        let within = HELD_RECORDS as usize - 1;
        assert!(with("a", within, "?q<a").starts_with("a=q "));
        let late = with("a", within + 1, "?q<a");
        assert!(late.starts_with("a x0") && late.ends_with("?q=q late"), "{late}");
        let late = with("a<q", within + 1, "?q");
        assert!(late.starts_with("a x0") && late.ends_with("?q=q late"), "{late}");
        assert!(with("a<q", within + 1, ".q").ends_with(" .q"), "a GET makes a page of it");
        assert!(with("a<q", within + 1, "?r<s").ends_with(" ?r=r 1 alone"));
        assert!(with(".q", 200, "a<q").ends_with(" a"));
        assert!(with("?q", 200, "a<q").ends_with(" a=q"));
        assert!(with("?q<a", 200, "a").ends_with(" a=q"));
    }

    fn pushed(pairing: &mut Pairing<&'static str>, text: &'static str, size: Size) {
        let (role, links) = links(text);
        assert_eq!(pairing.push(text, role, links, size), None);
    }

    #[test]
    fn what_takes_too_much_memory_waits_on_disk() {
        let mut pairing = Pairing::new();
        for id in ["a", "b", "c"] {
            pushed(&mut pairing, id, in_memory(HELD_BYTES / 2));
        }
        let (mut moved, half) = (Vec::new(), HELD_BYTES / 2);
        let mut relieve = |what: &mut &'static str| {
            moved.push(*what);
            Ok(Some(Size { memory: 1, disk: half - 1 }))
        };
        pairing.relieve(&mut relieve).expect("no error");
        pairing.relieve(&mut relieve).expect("no error");
        assert_eq!(pairing.next(false).map(|held| held.what), None);
        assert_eq!(moved, ["c", "b"]);
        assert_eq!(pairing.held_size, Size { memory: half + 2, disk: HELD_BYTES - 2 });
        pushed(&mut pairing, "?q<c", Size::default());
        assert_eq!(pairing.held[2].variant, Variant::new("q").ok());
    }

    #[test]
    fn problems_without_end_let_an_answer_go() {
        let mut pairing = Pairing::new();
        pushed(&mut pairing, "a", Size::default());
        pushed(&mut pairing, "b", Size::default());
        for _ in 0..=HELD_ITEMS {
            pairing.push_other("a problem");
        }
        assert_eq!(pairing.next(false).map(|held| held.what), Some("a"));
    }

    #[test]
    fn the_disk_has_a_bound_too_and_one_answer_waits_whatever_it_takes() {
        for size in [Size { memory: 0, disk: 1 << 40 }, in_memory(1 << 40)] {
            let mut pairing = Pairing::new();
            pushed(&mut pairing, "a", size);
            assert!(pairing.next(false).is_none());
            pushed(&mut pairing, "?q", Size::default());
            assert_eq!(pairing.next(false).and_then(|held| held.variant), Variant::new("q").ok());
            assert!(pairing.next(false).is_some() && pairing.held.is_empty());
            pushed(&mut pairing, "b<x", size);
            pushed(&mut pairing, "c", Size::default());
            assert_eq!(pairing.next(false).map(|held| held.what), Some("b<x"));
            assert!(pairing.next(false).is_none());
            assert_eq!(pairing.without_request(), 1);
        }
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let (mut variants, mut passed) = (Remembered::default(), Passed::default());
        let variant = Variant::new(vec![0; Variant::MAX_BYTES]).expect("fits");
        for at in 0..200_000u32 {
            let (_, links) = links(&format!("{at}<q{at}"));
            passed.insert(u64::from(at), &links);
            if at < 2000 {
                variants.insert(&links.id, &variant);
            }
        }
        assert!(variants.bytes <= REMEMBERED_BYTES && variants.order.len() == variants.variants.len());
        let is_known = |id: &[u8]| variants.variants.contains_key(id);
        assert!(is_known(b"1999") && !is_known(b"0"));
        assert!(passed.answers.known.len() == LATEST_IDS && passed.open.len() == LATEST_IDS / 2);
        assert_eq!(passed.without_request, 200_000);
        let mut met = |text: &str| passed.take(&links(text).1).map(|_| passed.without_request);
        assert_eq!(
            ["?q0", "?x<0", "?q199999", "?x<199999", "?x<199998"].map(&mut met)[2..],
            [Some(199_999), Some(199_999), Some(199_998)]
        );
        assert_eq!(["?q0", "?x<0"].map(met), [None, None]);
    }
}
