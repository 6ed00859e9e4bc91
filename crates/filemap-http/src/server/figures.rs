//! Metrics of a store and its server: as JSON, as OpenMetrics, and as health checks.

use std::sync::Arc;
use std::time::Instant;

use axum::Json;
use axum::extract::{Extension, RawQuery, State};
use axum::http::StatusCode;
use axum::http::header::{CONTENT_TYPE, HeaderValue};
use axum::response::IntoResponse;
use filemap::access::Survives;
use filemap::{Error, PageRead, PageStore};
use filemap_core::dictionaries::{BodiesStored, CompressionSample};
use filemap_core::recovery::Absent;
use filemap_core::{StatValue, Stats};
use mailbox::ShardStats;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::registry::Registry;
use serde_json::{Map, Value, json};

use super::backend::Backend;
use super::guard::Allowed;
use super::hour;
use super::refusal::{Answer, Refusal};
use super::seen::ask::asking;
use super::seen::sets::Served;
use crate::following::FollowingFigures;
use crate::query::Query;
use crate::wire::Promises;

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// `GET /v1/stat`: what the store promises and contains; with `figures=1` every figure of the
/// engine.
pub(super) async fn stat(State(backend): State<Arc<Backend>>, RawQuery(raw): RawQuery) -> Answer {
    let figures = Query::parse(raw.as_deref(), &["figures"])?.switch("figures")?.unwrap_or(false);
    let writes = backend.options.writes;
    let found = backend.whole.call(move |store| {
        let (capabilities, contents) = (store.capabilities(), store.contents()?);
        let rules = store.engine().canonicalizer();
        let promises = Promises {
            survives: if capabilities.survives == Survives::Put { "put" } else { "sync" }.to_owned(),
            has_history: capabilities.has_history,
            lists_in_order: capabilities.lists_in_order,
            lists_from_cursor: capabilities.lists_from_cursor,
            writes,
            canonicalizer: Some(rules.name),
            canonicalizer_version: Some(rules.version),
            keys: contents.keys,
            bytes: contents.bytes,
        };
        Ok((promises, figures.then(|| store.engine().stats())))
    });
    let (promises, stats) = found.await?;
    let mut answer = serde_json::to_value(promises).unwrap_or_default();
    if let Some(following) = &backend.options.following {
        answer["follows"] = follows(&following.figures());
    }
    if let Some(stats) = stats {
        answer["figures"] = Value::Object(of_stats(&stats));
        answer["compression"] = backend.sample().map_or(Value::Null, |(at, sample)| compression(at, &sample));
    }
    Ok(Json(answer).into_response())
}

/// Compression of bodies in a sample.
fn compression(at: Instant, sample: &CompressionSample) -> Value {
    let of =
        |kind: &BodiesStored| json!({ "bodies": kind.bodies, "bytes": kind.bytes, "stored_bytes": kind.stored_bytes });
    json!({
        "sampled_seconds_ago": at.elapsed().as_secs(),
        "read_bytes": sample.read_bytes,
        "log_bytes": sample.log_bytes,
        "missed": sample.missed,
        "with_dictionary": of(&sample.with_dictionary),
        "without_dictionary": of(&sample.without_dictionary),
        "raw": of(&sample.raw),
    })
}

/// State of a replica as JSON.
fn follows(figures: &FollowingFigures) -> Value {
    json!({
        "location": figures.location,
        "is_complete": figures.is_complete,
        "up_to_date_seconds_ago": figures.up_to_date.map(|ago| ago.as_secs()),
        "error": figures.error,
        "has_ended": figures.has_ended,
        "put": figures.counts.put,
        "present": figures.counts.present,
        "removed": figures.counts.removed,
        "removed_versions": figures.counts.removed_versions,
        "refused": figures.counts.refused,
        "damaged": figures.counts.damaged,
        "begun_anew": figures.begun_anew,
    })
}

/// State of a replica as metrics.
fn registry_of_replica(figures: &FollowingFigures) -> Registry {
    let mut registry = Registry::with_prefix("filemap_replica");
    let mut figure = |name: &str, help: &str, value: u64| {
        let gauge = Gauge::<i64>::default();
        gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
        registry.register(name, help, gauge);
    };
    figure("is_complete", "1 once the replica has been equal to the followed store", u64::from(figures.is_complete));
    if let Some(ago) = figures.up_to_date {
        figure("up_to_date_seconds_ago", "Seconds since the replica had all changes", ago.as_secs());
    }
    figure("put", "Versions that the replica has put", figures.counts.put);
    figure("removed", "Keys that the replica has removed", figures.counts.removed);
    figure("removed_versions", "Single versions that the replica has removed", figures.counts.removed_versions);
    figure("refused", "Versions that a rule of the replica refuses", figures.counts.refused);
    figure("present", "Versions in the change feed that the replica already had", figures.counts.present);
    figure("damaged", "Damage reported by the followed store", figures.counts.damaged);
    figure(
        "does_not_get_on",
        "1 while the followed server is unreachable, or replication fails",
        u64::from(figures.error.is_some()),
    );
    figure("begun_anew", "Times that the replica started over", figures.begun_anew);
    registry
}

fn of_stats(stats: &Stats) -> Map<String, Value> {
    let value = |value| match value {
        StatValue::Counter(number) | StatValue::Gauge(number) => json!(number),
        StatValue::Text(text) => json!(text),
    };
    stats.fields().into_iter().map(|(name, found, _)| (name.to_owned(), value(found))).collect()
}

/// A snapshot of the engine's metrics.
#[derive(Debug)]
struct Figures(Stats);

impl Collector for Figures {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> std::fmt::Result {
        for (name, value, help) in self.0.fields() {
            // OpenMetrics adds a full stop to a help text.
            let help = help.trim_end_matches('.');
            match value {
                StatValue::Counter(number) => put(&mut encoder, name, help, &ConstCounter::new(number))?,
                StatValue::Gauge(number) => {
                    put(&mut encoder, name, help, &ConstGauge::new(i64::try_from(number).unwrap_or(i64::MAX)))?;
                }
                StatValue::Text(_) => {}
            }
        }
        Ok(())
    }
}

fn put(encoder: &mut DescriptorEncoder<'_>, name: &str, help: &str, metric: &impl EncodeMetric) -> std::fmt::Result {
    metric.encode(encoder.encode_descriptor(name, help, None, metric.metric_type())?)
}

/// `GET /metrics`.
pub(super) async fn metrics(State(backend): State<Arc<Backend>>, Extension(allowed): Extension<Allowed>) -> Answer {
    let kept_back = backend.counters.kept_back.registry(allowed.has_admin_token(&backend));
    let stats = backend.whole.call(|store| Ok(store.engine().stats())).await?;
    let mut of_store = Registry::with_prefix("filemap");
    of_store.register_collector(Box::new(Figures(stats)));
    let sets = backend.options.seen.all();
    let boxes = backend.options.links.as_ref().and_then(|links| links.get());
    let (of_sets, of_links) = asking(&backend, move || {
        let shards = boxes.map(|boxes| boxes.stats()).unwrap_or_default();
        (registry_of(&sets), registry_of_links(&shards))
    })
    .await?;
    let mut text = String::new();
    let written = encode_registry(&mut text, &of_store)
        .and_then(|()| encode_registry(&mut text, &of_sets))
        .and_then(|()| encode_registry(&mut text, &of_links))
        .and_then(|()| {
            let following = backend.options.following.as_ref();
            following.map_or(Ok(()), |f| encode_registry(&mut text, &registry_of_replica(&f.figures())))
        })
        .and_then(|()| encode_registry(&mut text, backend.counters.registry()))
        .and_then(|()| encode_registry(&mut text, &kept_back))
        .and_then(|()| encode_eof(&mut text));
    written.map_err(|error| Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?;
    Ok(([(CONTENT_TYPE, HeaderValue::from_static(OPEN_METRICS))], text).into_response())
}

/// Label: the seen set.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Set {
    set: String,
}

/// Metrics of seen sets that are available without counting bits.
fn registry_of(sets: &[Arc<Served>]) -> Registry {
    let mut registry = Registry::with_prefix("filemap_seen");
    let mut figure = |name: &str, help: &str, of: &dyn Fn(&Served) -> u64| {
        let family = Family::<Set, Gauge>::default();
        registry.register(name, help, family.clone());
        for served in sets {
            let found = i64::try_from(of(served)).unwrap_or(i64::MAX);
            family.get_or_create(&Set { set: served.name.clone() }).set(found);
        }
    };
    figure("urls", "URLs in a seen set", &|served| served.seen().len());
    figure("memory_bytes", "Bytes of memory of a seen set", &|served| served.seen().memory_bytes());
    figure("disk_bytes", "Bytes of files of a seen set", &|served| served.seen().disk_bytes());
    figure("kept_requests", "Requests to a seen set that can be sent again", &|served| {
        served.worker().map_or(0, |worker| worker.set().kept_requests())
    });
    registry
}

/// Label: the shard.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Shard {
    shard: u32,
}

/// Metrics of the mailboxes.
fn registry_of_links(shards: &[ShardStats]) -> Registry {
    let mut registry = Registry::with_prefix("filemap_links");
    let mut figure = |name: &str, help: &str, of: &dyn Fn(&ShardStats) -> u64| {
        let family = Family::<Shard, Gauge>::default();
        registry.register(name, help, family.clone());
        for shard in shards {
            let found = i64::try_from(of(shard)).unwrap_or(i64::MAX);
            family.get_or_create(&Shard { shard: shard.shard }).set(found);
        }
    };
    figure("waiting", "Links waiting for the owner of a shard", &|shard| shard.waiting);
    figure("waiting_bytes", "Bytes on disk of links waiting for the owner of a shard", &|shard| shard.bytes);
    figure("entered", "Links ever received for a shard", &|shard| shard.entered);
    figure("is_owned", "1 if a shard has an owner", &|shard| u64::from(shard.owner.is_some()));
    figure("is_idle", "1 if the owner of a shard has nothing to do", &|shard| {
        u64::from(shard.owner.is_some_and(|owner| owner.is_idle))
    });
    registry
}

/// `GET /v1/hour`: the last hour, in points of ten seconds.
pub(super) async fn of_hour(State(backend): State<Arc<Backend>>) -> Answer {
    let points: Vec<Value> = backend.hour.points().iter().map(hour::of_point).collect();
    Ok(Json(json!({ "every_seconds": hour::EVERY.as_secs(), "points": points })).into_response())
}

/// `GET /healthz`: the process is alive.
pub(super) async fn alive() -> &'static str {
    "ok\n"
}

/// `GET /readyz`: the store can be read, and written if the server writes; a read-only server
/// follows the writer. Checked at most once a second, because it needs no token, and a check is a
/// sync. The cause goes to the log.
pub(super) async fn ready(State(backend): State<Arc<Backend>>) -> Answer {
    if backend.was_ready() {
        return Ok("ok\n".into_response());
    }
    if let Some(following) = &backend.options.following {
        let figures = following.figures();
        let why = match (figures.has_ended, figures.is_complete) {
            (true, _) => Some("replication has ended; the server's log says why"),
            (false, false) => Some("the replica is not complete yet"),
            (false, true) => None,
        };
        if let Some(why) = why {
            return Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, why));
        }
    }
    let writes = backend.options.writes;
    let look = move |store: &PageStore| {
        if !writes {
            store.engine().refresh()?;
        }
        store.contains("http://filemap.invalid/ready").or_else(|error| match error {
            // Not every canonicaliser accepts this URL.
            Error::Url { .. } => Ok(false),
            error => Err(error),
        })?;
        if writes {
            store.sync()?
        }
        let missed = store.engine().absent().into_iter().find(Absent::is_missed);
        Ok(missed.map(|absent| format!("{} is unusable: {}", absent.file, absent.why)))
    };
    let why = match backend.whole.call(look).await {
        Ok(None) => {
            backend.note_ready();
            return Ok("ok\n".into_response());
        }
        Ok(Some(why)) => why,
        Err(error) => error.to_string(),
    };
    backend.log(&format!("not ready: {why}"));
    Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "the store is not ready; the server's log says why"))
}
