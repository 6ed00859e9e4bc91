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
use futures_util::{FutureExt, StreamExt, TryStreamExt};

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
    /// Waits until the rule is gone.
    Waits,
    /// No answer is known to be a passing one: 403.
    Refused,
}

/// A kind of request, a part of the names of its objects, and what becomes of them.
type Ruled = (&'static str, &'static str, Rule);

/// One end of it. Objects are common to all ends.
#[derive(Debug)]
pub struct Simulated {
    objects: Arc<InMemory>,
    seed: u64,
    faults: Faults,
    /// Requests so far, by kind: with the seed they decide.
    asked: Mutex<HashMap<&'static str, u64>>,
    is_cut: AtomicBool,
    rule: Mutex<Option<Ruled>>,
    /// Requests that a rule was for.
    pub ruled: AtomicU64,
    pub counts: Counts,
}

enum Fate {
    Done,
    Failed,
    Lost,
}

impl Simulated {
    pub fn new(objects: Arc<InMemory>, seed: u64, faults: Faults) -> Arc<Simulated> {
        let (asked, counts) = (Mutex::default(), Counts::default());
        let (is_cut, rule, ruled) = (AtomicBool::new(false), Mutex::default(), AtomicU64::new(0));
        Arc::new(Simulated { objects, seed, faults, asked, is_cut, rule, ruled, counts })
    }

    /// What becomes of requests of a kind for objects with `part` in their names, from here on.
    pub fn rule(&self, kind: &'static str, part: &'static str, rule: Rule) {
        *self.rule.lock().expect("no panic") = Some((kind, part, rule));
    }

    pub fn no_rule(&self) {
        *self.rule.lock().expect("no panic") = None;
    }

    fn ruled(&self, kind: &'static str, path: &Path) -> Option<Rule> {
        let mut ruled = self.rule.lock().expect("no panic");
        let (of_kind, part, rule) = (*ruled)?;
        if of_kind != kind || !path.as_ref().contains(part) {
            return None;
        }
        if rule == Rule::ConflictsOnce {
            *ruled = None;
        }
        Some(rule)
    }

    async fn obey(&self, kind: &'static str, path: &Path) -> Result<()> {
        let mut is_new = true;
        while let Some(rule) = self.ruled(kind, path) {
            self.ruled.fetch_add(u64::from(is_new), Ordering::SeqCst);
            is_new = false;
            let (path, source) = (path.to_string(), "by a rule of the test".into());
            match rule {
                Rule::Fails => return Err(Error::Generic { store: "simulated", source }),
                Rule::ConflictsOnce => return Err(Error::AlreadyExists { path, source }),
                Rule::Refused => return Err(Error::PermissionDenied { path, source }),
                Rule::Waits => tokio::time::sleep(Duration::from_millis(2)).await,
            }
        }
        Ok(())
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

    async fn with_fate<T>(&self, kind: &'static str, work: impl Future<Output = Result<T>>) -> Result<T> {
        let failed = |what: &'static str| Error::Generic { store: "simulated", source: what.into() };
        match self.fate(kind).await? {
            Fate::Failed => Err(failed("503 Slow Down")),
            Fate::Lost => {
                // An error is an answer, too.
                let _ = work.await;
                Err(failed("the answer is lost"))
            }
            Fate::Done => work.await,
        }
    }

    fn listed<T: Send + 'static>(&self, found: BoxStream<'static, Result<T>>) -> BoxStream<'static, Result<T>> {
        self.counts.lists.fetch_add(1, Ordering::Relaxed);
        if self.is_cut.load(Ordering::SeqCst) {
            return futures_util::stream::once(async { Err(Error::NotSupported { source: "cut off".into() }) }).boxed();
        }
        found
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
        self.obey("put", location).await?;
        self.with_fate("put", self.objects.put_opts(location, payload, options)).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.counts.puts.fetch_add(1, Ordering::Relaxed);
        self.with_fate("multipart", self.objects.put_multipart_opts(location, options)).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.counts.gets.fetch_add(1, Ordering::Relaxed);
        self.obey("get", location).await?;
        self.with_fate("get", self.objects.get_opts(location, options)).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.counts.deletes.fetch_add(1, Ordering::Relaxed);
        let (objects, is_cut) = (Arc::clone(&self.objects), self.is_cut.load(Ordering::SeqCst));
        let delete = move |path: Path| {
            let objects = Arc::clone(&objects);
            async move {
                if is_cut {
                    return Err(Error::NotSupported { source: "cut off".into() });
                }
                objects.delete(&path).await.map(|()| path)
            }
            .boxed()
        };
        locations.and_then(delete).boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.listed(self.objects.list(prefix))
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.counts.lists.fetch_add(1, Ordering::Relaxed);
        self.with_fate("list", self.objects.list_with_delimiter(prefix)).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.with_fate("copy", self.objects.copy_opts(from, to, options)).await
    }
}
