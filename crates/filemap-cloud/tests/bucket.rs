//! Simulated object storage over one in memory. It counts requests; a seed decides which of them
//! fail, which responses are lost, and which are late. It can be cut off: from then on, no request
//! of this handle has an effect.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use filemap_cloud::object_store::memory::InMemory;
use filemap_cloud::object_store::path::Path;
use filemap_cloud::object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, ObjectStoreExt,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use futures_util::stream::BoxStream;
use futures_util::{FutureExt, StreamExt, TryFutureExt, TryStreamExt};

/// The time without a request after which a handle counts as idle: longer than the shortest
/// interval of polls, 1 s.
const QUIET: Duration = Duration::from_secs(3);

/// Faults, in requests out of a thousand.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// Requests that fail before they take effect: 429, 500, 503.
    pub fail: u64,
    /// Requests that take effect, but whose responses are lost.
    pub lose: u64,
    /// Requests whose responses are late, so that others overtake them.
    pub delay: u64,
}

/// Requests and bytes since the last call of `take`.
#[derive(Debug, Default)]
pub struct Counts {
    pub gets: AtomicU64,
    pub puts: AtomicU64,
    pub lists: AtomicU64,
    pub deletes: AtomicU64,
    pub written: AtomicU64,
    /// Bytes of answers; `take` leaves them.
    pub transferred: AtomicU64,
}

impl Counts {
    pub fn take(&self) -> [u64; 5] {
        [&self.gets, &self.puts, &self.lists, &self.deletes, &self.written]
            .map(|count| count.swap(0, Ordering::Relaxed))
    }
}

/// Fate of the requests that a rule matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// 503, each time.
    Fails,
    /// 409 once, without effect.
    ConflictsOnce,
    /// Takes effect; the response is lost.
    Loses,
    /// As `Loses`, once.
    LosesOnce,
    /// 409 each time, without effect.
    Conflicts,
    /// Waits until the rule is removed.
    Waits,
    /// Fails with an error that must not be retried: 403.
    Refused,
}

/// Kind of request, part of the object's name (a `$` after it means the end of the name), and the
/// fate of the request.
type Ruled = (&'static str, &'static str, Rule);

/// One handle of it. All handles share the objects.
#[derive(Debug)]
pub struct Simulated {
    objects: Arc<InMemory>,
    fates: Arc<Fates>,
    pub counts: Counts,
}

/// Decides the fate of the requests of one handle.
#[derive(Debug)]
pub struct Fates {
    seed: u64,
    faults: Faults,
    /// Requests so far, by kind. With the seed they decide the fate.
    asked: Mutex<HashMap<&'static str, u64>>,
    is_cut: AtomicBool,
    rules: Mutex<Vec<Ruled>>,
    /// Requests that a rule matched.
    pub ruled: AtomicU64,
}

enum Fate {
    Done,
    Failed,
    Lost,
}

impl std::ops::Deref for Simulated {
    type Target = Fates;

    fn deref(&self) -> &Fates {
        &self.fates
    }
}

impl Simulated {
    pub fn new(objects: Arc<InMemory>, seed: u64, faults: Faults) -> Arc<Simulated> {
        let (asked, rules) = (Mutex::default(), Mutex::default());
        let (is_cut, ruled) = (AtomicBool::new(false), AtomicU64::new(0));
        let fates = Arc::new(Fates { seed, faults, asked, is_cut, rules, ruled });
        Arc::new(Simulated { objects, fates, counts: Counts::default() })
    }

    /// Waits until no request comes for a while, and forgets those before. SlateDB polls once
    /// after a handle has opened: on a busy machine some time later.
    pub fn quiet(&self) {
        let began = Instant::now();
        loop {
            self.counts.take();
            std::thread::sleep(QUIET);
            if self.counts.take()[..4] == [0; 4] {
                return;
            }
            assert!(began.elapsed() < Duration::from_secs(120), "requests without an end");
        }
    }

    /// A listing has one fate as a whole.
    fn listed(
        &self,
        prefix: Option<&Path>,
        found: BoxStream<'static, Result<ObjectMeta>>,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        self.counts.lists.fetch_add(1, Ordering::Relaxed);
        let (fates, prefix) = (Arc::clone(&self.fates), prefix.cloned().unwrap_or_default());
        async move { fates.with_fate("list", &prefix, async { Ok(found) }).await }.try_flatten_stream().boxed()
    }
}

impl Fates {
    /// Replaces the rules by one, for requests of a kind for objects with `part` in their names.
    pub fn rule(&self, kind: &'static str, part: &'static str, rule: Rule) {
        *self.rules.lock().expect("no panic") = vec![(kind, part, rule)];
    }

    /// As `rule`, but adds to the present rules.
    pub fn rule_too(&self, kind: &'static str, part: &'static str, rule: Rule) {
        self.rules.lock().expect("no panic").push((kind, part, rule));
    }

    pub fn no_rule(&self) {
        self.rules.lock().expect("no panic").clear();
    }

    /// Waits until a rule has matched a request.
    pub fn met(&self) {
        let began = Instant::now();
        while self.ruled.load(Ordering::SeqCst) == 0 {
            assert!(began.elapsed() < Duration::from_secs(60), "no request met the rule");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn ruled(&self, kind: &'static str, path: &Path) -> Option<Rule> {
        let mut rules = self.rules.lock().expect("no panic");
        let is_meant = |part: &str| match part.strip_suffix('$') {
            Some(end) => path.as_ref().ends_with(end),
            None => path.as_ref().contains(part),
        };
        let at = rules.iter().position(|(of_kind, part, _)| *of_kind == kind && is_meant(part))?;
        let (.., rule) = rules[at];
        if [Rule::ConflictsOnce, Rule::LosesOnce].contains(&rule) {
            rules.remove(at);
        }
        Some(rule)
    }

    /// Applies the rules to a request; `Lost` or `Done` if it took effect.
    async fn obey(&self, kind: &'static str, path: &Path) -> Result<Fate> {
        let mut is_new = true;
        while let Some(rule) = self.ruled(kind, path) {
            self.ruled.fetch_add(u64::from(is_new), Ordering::SeqCst);
            is_new = false;
            let (path, source) = (path.to_string(), "by a rule of the test".into());
            match rule {
                Rule::Fails => return Err(Error::Generic { store: "simulated", source }),
                Rule::Conflicts | Rule::ConflictsOnce => return Err(Error::AlreadyExists { path, source }),
                Rule::Refused => return Err(Error::PermissionDenied { path, source }),
                Rule::Loses | Rule::LosesOnce => return Ok(Fate::Lost),
                Rule::Waits => tokio::time::sleep(Duration::from_millis(2)).await,
            }
        }
        Ok(Fate::Done)
    }

    /// From now on, no request has an effect.
    pub fn cut(&self) {
        self.is_cut.store(true, Ordering::SeqCst);
    }

    /// Returns the fate of the next request of a kind.
    async fn fate(&self, kind: &'static str) -> Result<Fate> {
        if self.is_cut.load(Ordering::SeqCst) {
            return Err(Error::NotSupported { source: "cut off".into() });
        }
        let nth = {
            let mut asked = self.asked.lock().expect("no panic");
            let nth = asked.entry(kind).or_default();
            *nth += 1;
            *nth
        };
        let mut random = fastrand::Rng::with_seed(self.seed ^ (nth << 8) ^ (kind.len() as u64) << 50);
        random.u64(..);
        let Faults { fail, lose, delay } = self.faults;
        if random.u64(..1000) < delay {
            tokio::time::sleep(Duration::from_millis(random.u64(..8))).await;
        }
        Ok(match random.u64(..1000) {
            chance if chance < fail => Fate::Failed,
            chance if chance < fail + lose => Fate::Lost,
            _ => Fate::Done,
        })
    }

    async fn with_fate<T>(&self, kind: &'static str, path: &Path, work: impl Future<Output = Result<T>>) -> Result<T> {
        let failed = |what: &'static str| Error::Generic { store: "simulated", source: what.into() };
        let ruled = self.obey(kind, path).await?;
        match (ruled, self.fate(kind).await?) {
            (_, Fate::Failed) => Err(failed("503 Slow Down")),
            (Fate::Done, Fate::Done) => work.await,
            _ => {
                // An error is a response, too.
                let _ = work.await;
                Err(failed("the answer is lost"))
            }
        }
    }
}

impl fmt::Display for Simulated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a simulated object storage")
    }
}

#[async_trait::async_trait]
impl ObjectStore for Simulated {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.counts.puts.fetch_add(1, Ordering::Relaxed);
        self.counts.written.fetch_add(payload.content_length() as u64, Ordering::Relaxed);
        self.with_fate("put", location, self.objects.put_opts(location, payload, options)).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.counts.puts.fetch_add(1, Ordering::Relaxed);
        self.with_fate("multipart", location, self.objects.put_multipart_opts(location, options)).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.counts.gets.fetch_add(1, Ordering::Relaxed);
        let found = self.with_fate("get", location, self.objects.get_opts(location, options)).await?;
        self.counts.transferred.fetch_add(found.range.end.saturating_sub(found.range.start), Ordering::Relaxed);
        Ok(found)
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.counts.deletes.fetch_add(1, Ordering::Relaxed);
        let (objects, fates) = (Arc::clone(&self.objects), Arc::clone(&self.fates));
        let delete = move |path: Path| {
            let (objects, fates) = (Arc::clone(&objects), Arc::clone(&fates));
            async move { fates.with_fate("delete", &path, objects.delete(&path)).await.map(|()| path.clone()) }.boxed()
        };
        locations.and_then(delete).boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.listed(prefix, self.objects.list(prefix))
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.counts.lists.fetch_add(1, Ordering::Relaxed);
        let path = prefix.cloned().unwrap_or_default();
        self.with_fate("list", &path, self.objects.list_with_delimiter(prefix)).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.with_fate("copy", from, self.objects.copy_opts(from, to, options)).await
    }
}
