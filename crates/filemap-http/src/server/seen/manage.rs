//! `PUT /v1/seen/NAME`, which creates a set; the figures of one set and of all.

use std::sync::Arc;

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Extension, Path, RawQuery, State};
use axum::http::StatusCode;
use axum::response::IntoResponse;
use serde::Deserialize;
use serde_json::{Value, json};
use urlindex::stored::NewSet;
use urlindex::{BloomOptions, Canonicalizer, CrawlRules, DiskOptions, Exact, StorageError, Whatwg};

use super::ask::{asking, served};
use super::sets::{NotMade, Served, is_name};
use crate::query::Query;
use crate::server::backend::Backend;
use crate::server::guard::{Allowed, check_writes};
use crate::server::refusal::{Answer, Refusal};
use crate::server::tokens::Right;

const DEFAULT_RATE: f64 = 1e-4;

/// The description of a set to create.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    kind: String,
    #[serde(default = "whatwg")]
    rules: String,
    /// Expected number of URLs.
    capacity: Option<u64>,
    /// Highest false positive rate of a filter.
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
                return Err(Refusal::bad(format!("`rules` must be whatwg, crawl, surt or exact, not `{other}`")));
            }
        })
    }

    /// The set to create, if it needs at most `max_bytes` of memory.
    fn set(&self, disk: DiskOptions, max_bytes: u64) -> Result<NewSet, Refusal> {
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
            ("disk", _) => NewSet::Disk(disk.seed(seed)),
            ("trie", _) => {
                unused("seed", self.seed.is_some())?;
                NewSet::Trie
            }
            ("growing", _) => NewSet::Growing { rate, seed },
            ("bloom", Some(capacity)) => {
                // Theoretical size plus the effect of rounding.
                check_bytes(capacity as f64 * 1.5 * rate.recip().log2() / 8.0, max_bytes)?;
                NewSet::Bloom(BloomOptions::new(capacity, rate).seed(seed))
            }
            ("bloom", None) => return Err(Refusal::bad("a `bloom` needs a `capacity`; if it is unknown, `growing`")),
            ("md5-bitmap", capacity) => {
                let bits = capacity.map_or(28, bits);
                check_bytes(f64::from(bits - 3).exp2(), max_bytes)?;
                NewSet::Md5Bitmap { bits }
            }
            (other, _) => {
                let words = format!("`kind` must be disk, bloom, growing, trie or md5-bitmap, not `{other}`");
                return Err(Refusal::bad(words));
            }
        })
    }
}

/// log2 of the bits of a bitmap with at most one slot in a hundred used.
fn bits(capacity: u64) -> u32 {
    capacity.saturating_mul(100).checked_next_power_of_two().map_or(64, u64::trailing_zeros).max(16)
}

fn check_bytes(bytes: f64, max: u64) -> Result<(), Refusal> {
    if bytes <= max as f64 {
        return Ok(());
    }
    let wanted = bytes / f64::from(1 << 20);
    Err(Refusal::bad(format!(
        "it takes {wanted:.0} MiB of memory, and a set made on request at most {} (--seen-memory); take `disk`, or make \
         it with `fm-tool seen create` and serve it with --seen",
        max >> 20
    )))
}

/// `PUT /v1/seen/NAME`: creates a set, unless it exists.
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
        return Err(Refusal::bad(format!("`{name}` is not a name of a seen set: give 1 to 64 of a-z, 0-9, _ and -")));
    }
    let wanted: Wanted = serde_json::from_slice(&body).map_err(|error| {
        Refusal::bad(format!("send a set as JSON, such as {{\"kind\":\"disk\",\"rules\":\"crawl\"}}: {error}"))
    })?;
    let sets = Arc::clone(&backend.options.seen);
    let (set, canonicalizer) = (wanted.set(sets.disk_options(), sets.max_bytes())?, wanted.canonicalizer()?);
    let (of_call, rules) = (name.clone(), Arc::clone(&canonicalizer));
    let made = asking(&backend, move || sets.create(&of_call, set, &*rules)).await?;
    let (served, is_new) = made.map_err(|why| not_made(&name, why))?;
    let is_alike = served.kind() == wanted.kind
        && (served.canonicalizer.name(), served.canonicalizer.version())
            == (canonicalizer.name(), canonicalizer.version());
    if !is_alike {
        let words = format!("seen set `{name}` exists with another kind or canonicaliser");
        return Err(Refusal::new(StatusCode::CONFLICT, words));
    }
    let figures = asking(&backend, move || figures(&served)).await?;
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Json(figures)).into_response())
}

/// `GET /v1/seen`: all sets.
pub(crate) async fn all(State(backend): State<Arc<Backend>>, RawQuery(raw): RawQuery) -> Answer {
    Query::parse(raw.as_deref(), &[])?;
    let sets = backend.options.seen.all();
    let sets = asking(&backend, move || sets.iter().map(|served| figures(served)).collect::<Vec<Value>>()).await?;
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
    Ok(Json(asking(&backend, move || figures(&served)).await?).into_response())
}

fn not_made(name: &str, why: NotMade) -> Refusal {
    let conflict = |words: &str| Refusal::new(StatusCode::CONFLICT, format!("seen set `{name}` {words}"));
    match why {
        NotMade::NoFolder => {
            let words = "this server creates no seen sets: start it with --write and --seen-dir";
            Refusal::new(StatusCode::FORBIDDEN, words)
        }
        NotMade::Begun => {
            let words = format!("seen set `{name}` is being created by another request: ask again");
            Refusal::new(StatusCode::SERVICE_UNAVAILABLE, words)
        }
        NotMade::TooMany => conflict("would exceed the limit of sets created on request: serve it with --seen"),
        NotMade::Failed(urlindex::Error::Storage(error)) if is_there(&error) => {
            conflict(&format!("is not served, but has files in the folder: {error}"))
        }
        NotMade::Failed(error) => error.into(),
    }
}

fn is_there(error: &StorageError) -> bool {
    matches!(error, StorageError::Io { source, .. } if source.kind() == std::io::ErrorKind::AlreadyExists)
}

fn figures(served: &Served) -> Value {
    let stats = served.stats();
    let mut figures = json!({
        "name": served.name,
        "kind": served.kind(),
        "rules": served.canonicalizer.name(),
        "rules_version": served.canonicalizer.version(),
        "writes": served.is_writable(),
        "urls": stats.urls,
        "inserted": stats.inserted,
        "memory_bytes": stats.memory_bytes,
        "disk_bytes": stats.disk_bytes,
        "false_positive_rate": stats.false_positive_rate,
        "expected_loss": stats.expected_loss,
        "waiting": served.waiting(),
    });
    if let Some(worker) = served.worker() {
        figures["pending"] = json!(worker.set().pending());
        figures["kept_requests"] = json!(worker.set().kept_requests());
    }
    figures
}
