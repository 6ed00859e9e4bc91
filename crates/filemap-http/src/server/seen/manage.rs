//! `PUT /v1/seen/NAME`, which makes a set; the figures of one and of all.

use std::sync::Arc;

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Extension, Path, RawQuery, State};
use axum::http::StatusCode;
use axum::response::IntoResponse;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::task::spawn_blocking;
use urlindex::{BloomOptions, Canonicalizer, CrawlRules, DiskOptions, Exact, NewSet, Whatwg};

use super::ask::served;
use super::sets::{Served, is_name};
use crate::query::Query;
use crate::server::backend::Backend;
use crate::server::guard::{Allowed, check_writes};
use crate::server::refusal::{Answer, Refusal};
use crate::server::tokens::Right;

const DEFAULT_RATE: f64 = 1e-4;

/// A set to make.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    kind: String,
    #[serde(default = "whatwg")]
    rules: String,
    /// URLs that it is meant for.
    capacity: Option<u64>,
    /// The greatest false positive rate, of a filter.
    rate: Option<f64>,
    seed: Option<u64>,
}

fn whatwg() -> String {
    "whatwg".to_owned()
}

impl Wanted {
    fn canonicalizer(&self) -> Result<Arc<dyn Canonicalizer>, Refusal> {
        Ok(match self.rules.as_str() {
            "whatwg" => Arc::new(Whatwg),
            "crawl" => Arc::new(CrawlRules::crawl()),
            "surt" => Arc::new(CrawlRules::surt()),
            "exact" => Arc::new(Exact),
            other => {
                return Err(Refusal::bad(format!("`rules` are whatwg, crawl, surt or exact, not `{other}`")));
            }
        })
    }

    fn set(&self) -> Result<NewSet, Refusal> {
        let (rate, seed) = (self.rate.unwrap_or(DEFAULT_RATE), self.seed.unwrap_or(0));
        let unused = |name: &str, is_given: bool| match is_given {
            true => Err(Refusal::bad(format!("`{name}` does not apply to a set of the kind {}", self.kind))),
            false => Ok(()),
        };
        match self.kind.as_str() {
            "disk" | "trie" => unused("rate", self.rate.is_some())?,
            "md5-bitmap" => {
                unused("rate", self.rate.is_some())?;
                unused("seed", self.seed.is_some())?;
            }
            _ => {}
        }
        Ok(match (self.kind.as_str(), self.capacity) {
            ("disk", _) => NewSet::Disk(DiskOptions::new().seed(seed)),
            ("trie", _) => {
                unused("seed", self.seed.is_some())?;
                NewSet::Trie
            }
            ("growing", _) => NewSet::Growing { rate, seed },
            ("bloom", Some(capacity)) => NewSet::Bloom(BloomOptions::new(capacity, rate).seed(seed)),
            ("bloom", None) => return Err(Refusal::bad("a `bloom` needs a `capacity`; if it is unknown, `growing`")),
            ("md5-bitmap", capacity) => NewSet::Md5Bitmap { bits: capacity.map_or(28, bits) },
            (other, _) => {
                let words = format!("`kind` is disk, bloom, growing, trie or md5-bitmap, not `{other}`");
                return Err(Refusal::bad(words));
            }
        })
    }
}

/// Bits of a bitmap of which one slot in a hundred is taken at most.
fn bits(capacity: u64) -> u32 {
    capacity.saturating_mul(100).checked_next_power_of_two().map_or(64, u64::trailing_zeros).clamp(16, 36)
}

/// `PUT /v1/seen/NAME`: makes a set, unless it is there.
pub(crate) async fn create(
    State(backend): State<Arc<Backend>>,
    Extension(allowed): Extension<Allowed>,
    Path(name): Path<String>,
    RawQuery(raw): RawQuery,
    body: Bytes,
) -> Answer {
    check_writes(&backend)?;
    allowed.needs(Right::Write)?;
    Query::parse(raw.as_deref(), &[])?;
    if !is_name(&name) {
        return Err(Refusal::bad(format!("`{name}` is no name of a seen set: give 1 to 64 of a-z, 0-9, _ and -")));
    }
    let wanted: Wanted = serde_json::from_slice(&body).map_err(|error| {
        Refusal::bad(format!("send a set as JSON, such as {{\"kind\":\"disk\",\"rules\":\"crawl\"}}: {error}"))
    })?;
    let (set, canonicalizer) = (wanted.set()?, wanted.canonicalizer()?);
    let sets = Arc::clone(&backend.options.seen);
    let (of_call, rules) = (name.clone(), Arc::clone(&canonicalizer));
    let made = blocking(move || sets.create(&of_call, set, &*rules)).await?;
    let Some(made) = made else {
        let words = "this server makes no seen sets: start it with --write and --seen-dir";
        return Err(Refusal::new(StatusCode::FORBIDDEN, words));
    };
    let (served, is_new) = made?;
    let is_alike = served.set().kind().name() == wanted.kind
        && (served.canonicalizer.name(), served.canonicalizer.version())
            == (canonicalizer.name(), canonicalizer.version());
    if !is_alike {
        let words = format!("there is a seen set `{name}` of another kind or with other rules");
        return Err(Refusal::new(StatusCode::CONFLICT, words));
    }
    let figures = blocking(move || figures(&served)).await?;
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Json(figures)).into_response())
}

/// `GET /v1/seen`: all sets.
pub(crate) async fn all(State(backend): State<Arc<Backend>>, RawQuery(raw): RawQuery) -> Answer {
    Query::parse(raw.as_deref(), &[])?;
    let sets = backend.options.seen.all();
    let sets = blocking(move || sets.iter().map(|served| figures(served)).collect::<Vec<Value>>()).await?;
    Ok(Json(json!({ "sets": sets })).into_response())
}

/// `GET /v1/seen/NAME`: the figures of a set.
pub(crate) async fn one(
    State(backend): State<Arc<Backend>>,
    Path(name): Path<String>,
    RawQuery(raw): RawQuery,
) -> Answer {
    Query::parse(raw.as_deref(), &[])?;
    let served = served(&backend, &name)?;
    Ok(Json(blocking(move || figures(&served)).await?).into_response())
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Refusal> {
    let done = spawn_blocking(work).await;
    done.map_err(|error| Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))
}

fn figures(served: &Served) -> Value {
    let (set, stats) = (served.set(), served.stats());
    let mut figures = json!({
        "name": served.name,
        "kind": set.kind().name(),
        "rules": served.canonicalizer.name(),
        "rules_version": served.canonicalizer.version(),
        "writes": served.worker().is_some(),
        "urls": stats.urls,
        "inserted": stats.inserted,
        "memory_bytes": stats.memory_bytes,
        "disk_bytes": stats.disk_bytes,
        "false_positive_rate": stats.false_positive_rate,
        "expected_loss": stats.expected_loss,
    });
    if let Some(worker) = served.worker() {
        figures["pending"] = json!(worker.set().pending());
        figures["kept_requests"] = json!(worker.set().kept_requests());
    }
    figures
}
