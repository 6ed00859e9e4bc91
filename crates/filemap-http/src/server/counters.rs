//! The server's own metrics: requests by route and status, and their latency.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use filemap::acl::{Access, Cause, Ruling};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

/// Prefix of all metric names.
const PREFIX: &str = "filemap_http";

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Route {
    method: &'static str,
    route: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Status {
    method: &'static str,
    route: String,
    status: u16,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Refused {
    access: &'static str,
    by: &'static str,
}

/// Counts captures withheld by access rules.
#[derive(Clone, Default)]
pub(super) struct KeptBack {
    all: Family<Refused, Counter<u64, AtomicU64>>,
    /// Blocked captures only, without excluded ones.
    blocked: Family<Refused, Counter<u64, AtomicU64>>,
}

impl KeptBack {
    /// Counts a capture that a ruling withholds.
    pub(super) fn add(&self, ruling: &Ruling<'_>) {
        let (is_blocked, access) = match ruling.access {
            Access::Allow => return,
            Access::Block => (true, "block"),
            Access::Exclude => (false, "exclude"),
        };
        let by = match ruling.cause {
            Cause::Default => "default",
            Cause::Embargo(_) => "embargo",
            _ => "rule",
        };
        let refused = Refused { access, by };
        if is_blocked {
            self.blocked.get_or_create(&refused).inc();
        }
        self.all.get_or_create(&refused).inc();
    }

    /// The counter for a monitor. Excluded captures are included only with `tells_all`: otherwise
    /// a client could request a URL, read the counter, and so learn whether it is stored.
    pub(super) fn registry(&self, tells_all: bool) -> Registry {
        let mut registry = Registry::with_prefix(PREFIX);
        let help =
            "URLs and captures withheld by access rules, counted each time one is requested or left out of a list";
        registry.register("kept_back", help, if tells_all { &self.all } else { &self.blocked }.clone());
        registry
    }
}

/// Counters of one server.
pub(super) struct Counters {
    registry: Registry,
    requests: Family<Status, Counter<u64, AtomicU64>>,
    seconds: Family<Route, Histogram, fn() -> Histogram>,
    pub(super) kept_back: KeptBack,
}

impl Counters {
    pub(super) fn new() -> Counters {
        let requests = Family::default();
        // 50 us to 1.6 s, each bucket twice the one before it.
        let histogram: fn() -> Histogram = || Histogram::new(exponential_buckets(50e-6, 2.0, 16));
        let seconds = Family::new_with_constructor(histogram);
        let mut registry = Registry::with_prefix(PREFIX);
        registry.register("requests", "Requests answered", requests.clone());
        let help = "Time from a request's head to that of its answer";
        registry.register_with_unit("request_duration", help, Unit::Seconds, seconds.clone());
        let kept_back = KeptBack::default();
        Counters { registry, requests, seconds, kept_back }
    }

    /// Counts a response.
    pub(super) fn add(&self, method: &'static str, route: &str, status: u16, took: Duration) {
        self.seconds.get_or_create(&Route { method, route: route.to_owned() }).observe(took.as_secs_f64());
        self.requests.get_or_create(&Status { method, route: route.to_owned(), status }).inc();
    }

    pub(super) fn registry(&self) -> &Registry {
        &self.registry
    }
}
