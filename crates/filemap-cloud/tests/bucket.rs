//! A simulated object storage over one in memory: it counts requests, and one seed decides which
//! of them fail, which answers are lost, and which are late. It can be cut off: then nothing is
//! done any more for whoever has this end of it.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use filemap_cloud::object_store::memory::InMemory;
use filemap_cloud::object_store::path::Path;
use filemap_cloud::object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, ObjectStoreExt,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use futures_util::stream::BoxStream;
use futures_util::{FutureExt, StreamExt, TryFutureExt, TryStreamExt};

/// Of a thousand requests.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// Fail before they are done: 429, 500, 503.
    pub fail: u64,
    /// Are done, and their answers are lost.
    pub lose: u64,
    /// Are answered late, so that others overtake them.
    pub delay: u64,
}

/// Requests and bytes since the last look.
#[derive(Debug, Default)]
pub struct Counts {
    pub gets: AtomicU64,
    pub puts: AtomicU64,
    pub lists: AtomicU64,
    pub deletes: AtomicU64,
    pub written: AtomicU64,
}

impl Counts {
    pub fn take(&self) -> [u64; 5] {
        [&self.gets, &self.puts, &self.lists, &self.deletes, &self.written]
            .map(|count| count.swap(0, Ordering::Relaxed))
    }
}

/// What becomes of requests that a rule is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// 503, each time.
    Fails,
    /// 409 once, and nothing is done.
    ConflictsOnce,
    /// It is done, and its answer is lost.
    Loses,
    /// As `Loses`, once.
    LosesOnce,
    /// 409, each time, and nothing is done.
    Conflicts,
    /// Waits until the rule is gone.
    Waits,
    /// No answer is known to be a passing one: 403.
    Refused,
}

/// A kind of request, a part of the names of its objects (their end with `$` behind it), and what
/// becomes of them.
type Ruled = (&'static str, &'static str, Rule);

/// One end of it. Objects are common to all ends.
#[derive(Debug)]
pub struct Simulated {
    objects: Arc<InMemory>,
    fates: Arc<Fates>,
    pub counts: Counts,
}

/// What becomes of requests of one end.
#[derive(Debug)]
pub struct Fates {
    seed: u64,
    faults: Faults,
    /// Requests so far, by kind: with the seed they decide.
    asked: Mutex<HashMap<&'static str, u64>>,
    is_cut: AtomicBool,
    rules: Mutex<Vec<Ruled>>,
    /// Requests that a rule was for.
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
    /// What becomes of requests of a kind for objects with `part` in their names, from here on.
    pub fn rule(&self, kind: &'static str, part: &'static str, rule: Rule) {
        *self.rules.lock().expect("no panic") = vec![(kind, part, rule)];
    }

    /// As `rule`, beside the rules that there are.
    pub fn rule_too(&self, kind: &'static str, part: &'static str, rule: Rule) {
        self.rules.lock().expect("no panic").push((kind, part, rule));
    }

    pub fn no_rule(&self) {
        self.rules.lock().expect("no panic").clear();
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

    /// What rules say of a request; `Lost` or `Done` if it is done.
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

    /// Nothing is done from here on.
    pub fn cut(&self) {
        self.is_cut.store(true, Ordering::SeqCst);
    }

    /// What becomes of the next request of a kind.
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
                // An error is an answer, too.
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
        self.with_fate("get", location, self.objects.get_opts(location, options)).await
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
