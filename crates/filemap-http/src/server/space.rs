//! Disk use of a store: its segments and dictionaries, in parts, as JSON; `inspect` shows the
//! same.

use std::sync::Arc;

use axum::Json;
use axum::extract::{RawQuery, State};
use axum::response::IntoResponse;
use filemap::PageStore;
use filemap_core::compact::SegmentInfo;
use filemap_core::dictionaries::DictionaryFacts;
use serde_json::{Value, json};

use super::backend::Backend;
use super::refusal::{Answer, Refusal};
use super::shown::Shown;
use crate::query::Query;
use crate::wire::Url;

/// Entries of a response.
const LIMIT: usize = 1_000;

/// Bytes of segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Space {
    pub(super) segments: u64,
    pub(super) bytes: u64,
    pub(super) live: u64,
    pub(super) dead: u64,
    pub(super) tombstones: u64,
    pub(super) unindexed: u64,
}

impl Space {
    /// The bytes of one segment.
    pub(super) fn of(segment: &SegmentInfo) -> Space {
        Space {
            segments: 1,
            bytes: segment.bytes,
            live: segment.live_bytes,
            dead: segment.dead_bytes,
            tombstones: segment.tombstone_bytes,
            unindexed: segment.unindexed_bytes,
        }
    }

    fn and(self, other: Space) -> Space {
        Space {
            segments: self.segments + other.segments,
            bytes: self.bytes + other.bytes,
            live: self.live + other.live,
            dead: self.dead + other.dead,
            tombstones: self.tombstones + other.tombstones,
            unindexed: self.unindexed + other.unindexed,
        }
    }

    /// The live share of the bytes counted by checkpoints.
    pub(super) fn live_share(&self) -> Option<f64> {
        let counted = self.live + self.dead + self.tombstones;
        (counted > 0).then(|| self.live as f64 / counted as f64)
    }
}

/// A part of the segments.
pub(super) struct Segments {
    pub(super) part: Vec<SegmentInfo>,
    /// Sum over all segments.
    pub(super) all: Space,
    /// Ordinal after which the next part begins.
    pub(super) after: Option<u64>,
}

impl Segments {
    /// At most `limit` segments after the one with the ordinal `after`.
    pub(super) fn of(store: &PageStore, after: Option<u64>, limit: usize) -> Segments {
        Segments::part(store.engine().segments(), after, limit)
    }

    fn part(mut part: Vec<SegmentInfo>, after: Option<u64>, limit: usize) -> Segments {
        let all = part.iter().map(Space::of).fold(Space::default(), Space::and);
        part.retain(|segment| after.is_none_or(|after| segment.ordinal > after));
        let is_cut = part.len() > limit;
        part.truncate(limit);
        let after = part.last().map(|last| last.ordinal).filter(|_| is_cut);
        Segments { part, all, after }
    }
}

/// A dictionary as shown.
pub(super) struct Dictionary {
    pub(super) facts: DictionaryFacts,
    /// Its group is a host with pages that access rules may exclude: the name is left out of the
    /// facts.
    pub(super) is_kept_back: bool,
}

/// A part of the dictionaries.
pub(super) struct Dictionaries {
    pub(super) part: Vec<Dictionary>,
    /// Total number of dictionaries.
    pub(super) all: u64,
    /// Id after which the next part begins.
    pub(super) after: Option<u32>,
}

impl Dictionaries {
    /// At most `limit` dictionaries after the one with the id `after`.
    pub(super) async fn of(backend: &Backend, after: Option<u32>, limit: usize) -> Result<Dictionaries, Refusal> {
        let all = backend.whole.call(|store| Ok(store.engine().dictionaries())).await?;
        let part = move |shown: &Shown| {
            Ok(Dictionaries::part(all, after, limit, |group| group.is_empty() || shown.may_name(group)))
        };
        backend.call(part).await
    }

    fn part(
        mut part: Vec<DictionaryFacts>,
        after: Option<u32>,
        limit: usize,
        may_name: impl Fn(&[u8]) -> bool,
    ) -> Dictionaries {
        let all = part.len() as u64;
        part.retain(|dictionary| after.is_none_or(|after| dictionary.id > after));
        let is_cut = part.len() > limit;
        part.truncate(limit);
        let after = part.last().map(|last| last.id).filter(|_| is_cut);
        let told = |mut facts: DictionaryFacts| {
            let is_kept_back = !may_name(&facts.group);
            if is_kept_back {
                facts.group.clear();
            }
            Dictionary { facts, is_kept_back }
        };
        let part = part.into_iter().map(told).collect();
        Dictionaries { part, all, after }
    }
}

/// The parameter `after`.
pub(super) fn after<T: std::str::FromStr>(raw: Option<&str>) -> Result<Option<T>, String> {
    Query::parse(raw, &["after"])?.read("after", "a number from an earlier answer", |text| text.parse().ok())
}

/// `GET /v1/segments`.
pub(super) async fn segments(State(backend): State<Arc<Backend>>, RawQuery(raw): RawQuery) -> Answer {
    let after = after(raw.as_deref())?;
    let found = backend.whole.call(move |store| Ok(Segments::of(store, after, LIMIT))).await?;
    let rows: Vec<Value> = found.part.iter().map(segment).collect();
    let all = counted(&found.all);
    let answer = json!({ "all": all, "segments": rows, "after": found.after, "incomplete": backend.missed() });
    Ok(Json(answer).into_response())
}

fn counted(space: &Space) -> Value {
    json!({
        "segments": space.segments,
        "bytes": space.bytes,
        "live_bytes": space.live,
        "dead_bytes": space.dead,
        "tombstone_bytes": space.tombstones,
        "unindexed_bytes": space.unindexed,
        "live_share": space.live_share(),
    })
}

/// The same fields as in `fm-tool segments`.
fn segment(segment: &SegmentInfo) -> Value {
    json!({
        "segment": segment.id,
        "ordinal": segment.ordinal,
        "kind": if segment.is_compacted { "compacted" } else { "log" },
        "bytes": segment.bytes,
        "live_bytes": segment.live_bytes,
        "dead_bytes": segment.dead_bytes,
        "tombstone_bytes": segment.tombstone_bytes,
        "unindexed_bytes": segment.unindexed_bytes,
        "live_share": Space::of(segment).live_share(),
        "begun_ms": segment.begun_ms,
    })
}

/// `GET /v1/dictionaries`.
pub(super) async fn dictionaries(State(backend): State<Arc<Backend>>, RawQuery(raw): RawQuery) -> Answer {
    let after = after(raw.as_deref())?;
    let found = Dictionaries::of(&backend, after, LIMIT).await?;
    let rows: Vec<Value> = found.part.iter().map(dictionary).collect();
    Ok(Json(json!({ "all": found.all, "dictionaries": rows, "after": found.after })).into_response())
}

fn dictionary(dictionary: &Dictionary) -> Value {
    let facts = &dictionary.facts;
    if let Some(problem) = &facts.problem {
        return json!({ "id": facts.id, "problem": problem.to_string() });
    }
    let group = serde_json::to_value(Url::new(&facts.group)).unwrap_or_default();
    let group = if dictionary.is_kept_back { Value::Null } else { group };
    json!({
        "id": facts.id,
        "group": group.get("url"),
        "group_base64": group.get("url_base64"),
        "is_kept_back": dictionary.is_kept_back,
        "created_ms": facts.created_ms,
        "pages": facts.pages,
        "bytes": facts.body_bytes,
        "meta_bytes": facts.meta_bytes,
        "body_ratio": facts.body_ratio,
        "meta_ratio": facts.meta_ratio,
        "is_current": facts.is_current,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment_of(ordinal: u64) -> SegmentInfo {
        SegmentInfo {
            id: ordinal as u16,
            bytes: 100,
            begun_ms: 0,
            ordinal,
            is_compacted: false,
            live_bytes: 30,
            tombstone_bytes: 10,
            dead_bytes: 20,
            unindexed_bytes: 5,
        }
    }

    #[test]
    fn parts_put_together_are_all_and_each_has_the_sums_of_all() {
        let all: Vec<SegmentInfo> = [3, 4, 7, 9, 20].map(segment_of).into();
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let part = Segments::part(all.clone(), after, 2);
            assert_eq!((part.all.segments, part.all.live, part.all.bytes), (5, 150, 500));
            assert_eq!(part.all.live_share(), Some(0.5));
            found.extend(part.part);
            after = part.after;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(found, all);
        assert_eq!(Space::default().live_share(), None);
        let made = |id| DictionaryFacts { id, ..DictionaryFacts::default() };
        let first = Dictionaries::part([1, 2, 5].map(made).into(), None, 2, |_| true);
        assert_eq!((first.part.len(), first.all, first.after), (2, 3, Some(2)));
        let second = Dictionaries::part([1, 2, 5].map(made).into(), first.after, 2, |_| true);
        assert_eq!((second.part.len(), second.all, second.after), (1, 3, None));
    }

    #[test]
    fn a_group_of_any_bytes_and_a_damaged_dictionary_have_their_json() {
        let told = |facts, is_kept_back| Dictionary { facts, is_kept_back };
        let facts = DictionaryFacts { id: 1, group: vec![0xff], ..DictionaryFacts::default() };
        assert_eq!(dictionary(&told(facts, false))["group_base64"], "/w==");
        let error = filemap_core::Error::Closed;
        let damaged = told(DictionaryFacts { id: 2, problem: Some(error), ..DictionaryFacts::default() }, false);
        assert!(dictionary(&damaged)["problem"].as_str().is_some_and(|words| !words.is_empty()));
    }

    #[test]
    fn a_group_that_may_not_be_named_is_in_no_answer() {
        let group = |id, group: &[u8]| DictionaryFacts { id, group: group.into(), ..DictionaryFacts::default() };
        let all = vec![group(1, b""), group(2, b"http://hidden.example"), group(3, b"http://open.example")];
        let found = Dictionaries::part(all, None, 9, |group| group != b"http://hidden.example");
        let rows: Vec<Value> = found.part.iter().map(dictionary).collect();
        let groups: Vec<_> = rows.iter().map(|row| (row["group"].as_str(), row["is_kept_back"] == true)).collect();
        assert_eq!(groups, [(Some(""), false), (None, true), (Some("http://open.example"), false)]);
        assert!(found.part[1].facts.group.is_empty());
    }
}
