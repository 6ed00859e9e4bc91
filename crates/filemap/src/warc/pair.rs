//! Finds the request that an answer belongs to: what was asked decides whether an answer is the page itself or a variant.
//!
//! A request and its answer are two records. `WARC-Concurrent-To` of either names the other; where neither names any, two
//! records that follow each other with the same URL and date belong together. Which of them comes first differs among
//! writers, so that an answer is held back until its request was met, or [`HELD_RECORDS`] more records were, or what is held
//! takes [`HELD_BYTES`]. A request that comes before its answer is remembered for longer. Records that an export wrote say
//! themselves what they are.
//!
//! Invariants: records go on in the order in which they came; memory is bounded; a request that comes too late for an answer
//! that it names is told.

use std::collections::{HashMap, HashSet, VecDeque};

use xxhash_rust::xxh3::xxh3_64;

use super::header::RecordHeader;
use crate::variant::Variant;

/// An answer waits for its request for this many records.
const HELD_RECORDS: u64 = 64;
/// Answers that wait take up to this many bytes, and one more.
const HELD_BYTES: u64 = 8 << 20;
/// What is remembered of requests other than `GET` takes up to this many bytes.
const REMEMBERED_BYTES: usize = 16 << 20;
/// Answers that have gone on and whose ids are remembered.
const PASSED_IDS: usize = 1 << 16;

/// What a record says of itself and of others.
#[derive(Clone, Debug, Default)]
pub(super) struct Links {
    id: Vec<u8>,
    names: Vec<Vec<u8>>,
    url: Vec<u8>,
    date: Vec<u8>,
}

impl Links {
    pub(super) fn of(header: &RecordHeader) -> Links {
        let field = |name: &str| header.fields.get(name).map(<[u8]>::to_vec).unwrap_or_default();
        let named = header.fields.iter().filter(|field| field.is("WARC-Concurrent-To") && !field.value.is_empty());
        Links {
            id: field("WARC-Record-ID"),
            names: named.map(|field| field.value.clone()).collect(),
            url: header.target_uri().map(<[u8]>::to_vec).unwrap_or_default(),
            date: field("WARC-Date"),
        }
    }

    fn belongs_to(&self, other: &Links) -> bool {
        let names = |one: &Links, other: &Links| !other.id.is_empty() && one.names.contains(&other.id);
        names(self, other) || names(other, self)
    }

    /// Whether a record that stands beside the other may belong to it, since neither says anything else.
    fn may_belong_to(&self, other: &Links) -> bool {
        self.names.is_empty() && other.names.is_empty() && self.url == other.url && self.date == other.date
    }
}

/// What a record is to others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// An answer: waits for its request.
    Answer,
    /// A request, and the variant that it makes of its answer.
    Request(Option<Variant>),
    /// Something beside an answer: has its variant.
    Beside,
    /// Nothing.
    Other,
}

/// A record on its way, with what its reader wants back.
pub(super) struct Held<T> {
    pub(super) what: T,
    pub(super) variant: Option<Variant>,
    number: u64,
    bytes: u64,
    links: Links,
    waits: bool,
}

/// The records that are held back, and what is known of those that are not.
pub(super) struct Pairing<T> {
    held: VecDeque<Held<T>>,
    held_bytes: u64,
    /// Of the next record.
    number: u64,
    requests: VecDeque<Asked>,
    variants: Remembered,
    passed: Passed,
}

/// A request that was met a short while ago.
struct Asked {
    number: u64,
    links: Links,
    variant: Option<Variant>,
    has_answer: bool,
}

impl<T> Pairing<T> {
    pub(super) fn new() -> Pairing<T> {
        Pairing {
            held: VecDeque::new(),
            held_bytes: 0,
            number: 0,
            requests: VecDeque::new(),
            variants: Remembered::default(),
            passed: Passed::default(),
        }
    }

    /// Takes the next record, which holds so many bytes. `false` if it is a request whose answer has gone on as that of a
    /// plain `GET`, and is none.
    pub(super) fn push(&mut self, what: T, role: Role, links: Links, bytes: u64) -> bool {
        self.number += 1;
        let mut held = Held { what, variant: None, number: self.number, bytes, links, waits: role == Role::Answer };
        let in_time = match role {
            Role::Answer => {
                self.find_request(&mut held);
                true
            }
            Role::Request(variant) => self.take_request(&mut held, variant),
            Role::Beside => {
                held.variant = held.links.names.iter().find_map(|id| self.variants.get(id)).cloned();
                true
            }
            Role::Other => true,
        };
        self.held_bytes += bytes;
        self.held.push_back(held);
        in_time
    }

    /// Takes something that is no record.
    pub(super) fn push_other(&mut self, what: T) {
        let (number, links) = (self.number, Links::default());
        self.held.push_back(Held { what, variant: None, number, bytes: 0, links, waits: false });
    }

    /// The next record that waits for nothing any more; with `is_end`, none waits.
    pub(super) fn next(&mut self, is_end: bool) -> Option<Held<T>> {
        let front = self.held.front()?;
        let is_old = front.number + HELD_RECORDS <= self.number || self.held_bytes > HELD_BYTES;
        if front.waits && !is_old && !is_end {
            return None;
        }
        let held = self.held.pop_front()?;
        self.held_bytes -= held.bytes;
        if held.waits {
            self.passed.insert(&held.links.id);
        }
        Some(held)
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
        } else if let Some(variant) = links.names.iter().chain([&links.id]).find_map(|id| self.variants.get(id)) {
            answer.variant = Some(variant.clone());
            answer.waits = false;
        }
        if let Some(variant) = &answer.variant {
            self.variants.insert(&answer.links.id, variant);
        }
    }

    fn take_request(&mut self, request: &mut Held<T>, variant: Option<Variant>) -> bool {
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
        let is_late = !has_answer && variant.is_some() && links.names.iter().any(|id| self.passed.contains(id));
        if let Some(answer) = found {
            answer.variant.clone_from(&variant);
            answer.waits = false;
        }
        if let Some(variant) = &variant {
            request.links.names.iter().chain([&request.links.id]).for_each(|id| self.variants.insert(id, variant));
        }
        self.requests.push_back(Asked { number, links: request.links.clone(), variant, has_answer });
        if self.requests.len() as u64 > HELD_RECORDS {
            self.requests.pop_front();
        }
        !is_late
    }
}

/// The variants of records by their ids: of the last ones.
#[derive(Default)]
struct Remembered {
    variants: HashMap<Vec<u8>, Variant>,
    order: VecDeque<Vec<u8>>,
    bytes: usize,
}

impl Remembered {
    fn get(&self, id: &Vec<u8>) -> Option<&Variant> {
        self.variants.get(id)
    }

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

/// Which answers have gone on without a request: the last ones, by the hashes of their ids.
#[derive(Default)]
struct Passed {
    hashes: HashSet<u64>,
    order: VecDeque<u64>,
}

impl Passed {
    fn contains(&self, id: &[u8]) -> bool {
        self.hashes.contains(&xxh3_64(id))
    }

    fn insert(&mut self, id: &[u8]) {
        let hash = xxh3_64(id);
        if id.is_empty() || !self.hashes.insert(hash) {
            return;
        }
        self.order.push_back(hash);
        if self.order.len() > PASSED_IDS
            && let Some(hash) = self.order.pop_front()
        {
            self.hashes.remove(&hash);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `a<b` is an answer with the id `a` that names `b`; `?` in front makes it a `POST`, `.` a `GET`; `+` a note. `n:` at the
    /// end is the date.
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
        (role, Links { id: id.as_bytes().to_vec(), names, url: Vec::new(), date: date.as_bytes().to_vec() })
    }

    /// The records as they go on, with their variants.
    fn run(records: &[&str]) -> String {
        let mut pairing = Pairing::new();
        let (mut out, mut late) = (Vec::new(), 0);
        for (at, text) in records.iter().enumerate() {
            let (role, links) = links(text);
            late += u32::from(!pairing.push(text.to_string(), role, links, 1));
            while let Some(held) = pairing.next(at + 1 == records.len()) {
                let name = held.what.split(['<', ':']).next().unwrap_or_default().to_owned();
                let variant = held.variant.map_or(String::new(), |variant| format!("={variant}"));
                out.push(name + &variant);
            }
        }
        assert!(pairing.held.is_empty() && pairing.held_bytes == 0);
        out.extend((late > 0).then(|| "late".to_owned()));
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
            (&["a<x", "?q<y"], "a ?q=q"),
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
        assert!(with("?q", 200, "a<q").ends_with(" a=q"));
        assert!(with("?q<a", 200, "a").ends_with(" a=q"));
    }

    #[test]
    fn large_answers_do_not_wait_together() {
        let mut pairing = Pairing::new();
        for id in ["a", "b", "c"] {
            let (role, links) = links(id);
            pairing.push(id, role, links, HELD_BYTES / 2);
        }
        assert_eq!(pairing.next(false).map(|held| held.what), Some("a"));
        assert_eq!(pairing.next(false).map(|held| held.what), None);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let (mut variants, mut passed) = (Remembered::default(), Passed::default());
        let variant = Variant::new(vec![0; Variant::MAX_BYTES]).expect("fits");
        for at in 0..200_000u32 {
            let id = at.to_string().into_bytes();
            passed.insert(&id);
            if at < 2000 {
                variants.insert(&id, &variant);
            }
        }
        assert!(variants.bytes <= REMEMBERED_BYTES && variants.order.len() == variants.variants.len());
        assert!(variants.get(&b"1999".to_vec()).is_some() && variants.get(&b"0".to_vec()).is_none());
        assert!(passed.contains(b"199999") && !passed.contains(b"0") && passed.hashes.len() == PASSED_IDS);
    }
}
