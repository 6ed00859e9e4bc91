//! `crawl`: the crawler of the crate `crawl`, with a callback a page.
//!
//! The crawl runs on its own threads; the interpreter is attached only for the callback. The
//! calling thread waits detached and checks for signals. An exception of a callback or a signal
//! ends the crawl, as Ctrl-C ends `fm-crawl`: pages in flight are committed. The page whose
//! callback raised is not stored, nor are later pages; the next run fetches them.

use std::path::PathBuf;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crawl::fetch::address::Override;
use crawl::fetch::proxy::Proxy;
use crawl::hooks::fields::Field;
use crawl::run::Summary;
use crawl::settings::scope::Reach;
use crawl::{BoxError, Builder, Capture, Crawler, Reply, Stop};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::argument::{named, path};
use crate::crawled::{self, CrawlSummary};
use crate::errors::{self, invalid};
use crate::times;

/// Interval at which signals are checked.
const BETWEEN: Duration = Duration::from_millis(100);

/// The exception that ended the crawl early.
#[derive(Clone, Default)]
struct Raised(Arc<Mutex<Option<PyErr>>>);

impl Raised {
    fn is_set(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Keeps the first exception, and stops the crawl.
    fn set(&self, error: PyErr, stop: &Stop) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        stop.ask();
    }

    fn take(&self) -> Option<PyErr> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Crawls into a store, until nothing is left or a limit is reached.
#[pyfunction]
#[pyo3(name = "crawl", signature = (store, seeds, on_page, options))]
pub fn into_store(
    py: Python<'_>,
    #[pyo3(from_py_with = path)] store: PathBuf,
    seeds: Vec<String>,
    on_page: Option<Py<PyAny>>,
    options: &Bound<'_, PyDict>,
) -> PyResult<CrawlSummary> {
    let (stop, raised) = (Stop::new(), Raised::default());
    let mut builder = Crawler::builder(store).map_err(|error| errors::of_crawl(&error))?.seeds(seeds);
    for (name, value) in options {
        let name: String = name.extract()?;
        if !value.is_none() {
            builder = set(builder, &name, &value)?;
        }
    }
    if let Some(callback) = on_page {
        let (stop, raised) = (stop.clone(), raised.clone());
        builder = builder.on_page(move |capture: &Capture<'_>| -> Result<Reply, BoxError> {
            if raised.is_set() {
                return Ok(Reply::new().not_taken());
            }
            let asked = Python::attach(|py| crawled::ask(py, &callback, capture));
            Ok(asked.unwrap_or_else(|error| {
                raised.set(error, &stop);
                Reply::new().not_taken()
            }))
        });
    }
    let crawler = builder.stop(stop.clone()).build().map_err(|error| errors::of_crawl(&error))?;
    let ended = py.detach(|| run(crawler, &stop, &raised));
    match (raised.take(), ended) {
        (Some(error), _) => Err(error),
        (None, Ok(summary)) => Ok(summary.into()),
        (None, Err(error)) => Err(errors::of_crawl(&error)),
    }
}

/// Runs a crawl on a separate thread, and checks for signals meanwhile.
fn run(crawler: Crawler, stop: &Stop, raised: &Raised) -> Result<Summary, crawl::Error> {
    let (tell, told) = channel();
    // Fails if nobody waits for the result any more.
    let running = std::thread::spawn(move || drop(tell.send(crawler.run())));
    let ended = loop {
        match told.recv_timeout(BETWEEN) {
            Ok(ended) => break ended,
            Err(RecvTimeoutError::Timeout) => {
                if let Err(error) = Python::attach(|py| py.check_signals()) {
                    raised.set(error, stop);
                }
            }
            Err(RecvTimeoutError::Disconnected) => {
                break Err(crawl::Error::Broken("the crawl stopped unexpectedly; please report it".to_owned()));
            }
        }
    };
    // The result was sent, so the thread has ended or is about to.
    drop(running.join());
    ended
}

/// Sets an option of a crawl.
fn set(builder: Builder, name: &str, value: &Bound<'_, PyAny>) -> PyResult<Builder> {
    let wrong = |why: String| invalid(format!("{name}: {why}"));
    let texts = || named::<Vec<String>>(name, value);
    let text = || named::<String>(name, value);
    Ok(match name {
        "contact" => builder.contact(&text()?),
        "user_agent" => builder.user_agent(&text()?),
        "scope" => builder.scope(reach(&text()?).map_err(wrong)?),
        "rate" => builder.rate(named(name, value)?),
        "address_rate" => builder.address_rate(named(name, value)?),
        "connections" => builder.connections(named(name, value)?),
        "host_connections" => builder.host_connections(named(name, value)?),
        "max_depth" => builder.max_depth(named(name, value)?),
        "max_pages" => builder.max_pages(named(name, value)?),
        "max_host_pages" => builder.max_host_pages(named(name, value).map(Some)?),
        "recrawl" => builder.recrawl(Some(Duration::from_millis(times::age_ms(value)?.unsigned_abs()))),
        "obey_robots" => switched(named(name, value)?, builder, Builder::obey_robots, Builder::ignore_robots),
        "robots_token" => builder.robots_token(Some(text()?)),
        "sitemaps" => switched(named(name, value)?, builder, Builder::sitemaps, Builder::no_sitemaps),
        "requisites" => switched(named(name, value)?, builder, Builder::requisites, Builder::no_requisites),
        "cookies" => switched(named(name, value)?, builder, Builder::cookies, Builder::no_cookies),
        "forever" => switched(named(name, value)?, builder, Builder::forever, |same| same),
        "follow_nofollow" => switched(named(name, value)?, builder, Builder::follow_nofollow, Builder::obey_nofollow),
        "hosts" => builder.hosts(Some(path(value)?)),
        "attempts" => builder.attempts(named(name, value)?),
        "patience" => builder.patience(Duration::from_millis(times::age_ms(value)?.unsigned_abs())),
        "max_body" => builder.max_body(named(name, value)?),
        "accept_types" => builder.accept_types(&texts()?),
        "reject_extensions" => builder.reject_extensions(&texts()?),
        "warc" => builder.warc(Some(named(name, value)?)),
        "min_free" => builder.min_free(named(name, value)?),
        "allow_private" => switched(named(name, value)?, builder, Builder::allow_private, |same| same),
        "bind" => builder.bind(Some(text()?.parse().map_err(|error| wrong(format!("{error}")))?)),
        "proxy" => builder.proxy(Some(Proxy::parse(&text()?).map_err(wrong)?)),
        "include" => texts()?.iter().fold(builder, |builder, pattern| builder.include(pattern)),
        "exclude" => texts()?.iter().fold(builder, |builder, pattern| builder.exclude(pattern)),
        "fields" => {
            let named: Result<Vec<Field>, String> = texts()?.iter().map(|field| Field::named(field)).collect();
            builder.fields(&named.map_err(wrong)?)
        }
        "resolve" => {
            let parsed: Result<Vec<Override>, String> = texts()?.iter().map(|text| Override::parse(text)).collect();
            builder.resolve(parsed.map_err(wrong)?)
        }
        _ => return Err(PyTypeError::new_err(format!("crawl() has no option {name:?}"))),
    })
}

/// Applies the one of two builder methods that a value selects.
fn switched(is_on: bool, builder: Builder, on: fn(Builder) -> Builder, off: fn(Builder) -> Builder) -> Builder {
    if is_on { on(builder) } else { off(builder) }
}

/// The reach of a crawl, by name.
fn reach(name: &str) -> Result<Reach, String> {
    match name {
        "host" => Ok(Reach::Host),
        "domain" => Ok(Reach::Domain),
        "prefix" => Ok(Reach::Prefix),
        "any" => Ok(Reach::Any),
        _ => Err(format!("{name:?} is not host, domain, prefix or any")),
    }
}
