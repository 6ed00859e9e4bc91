//! Shards of stores in object storage: a crawl's own, and one to read. Needs feature `cloud`.

use std::path::Path;
use std::sync::Arc;

use crawl::files::depot::Depot;
use crawl::settings::bucket::BucketSettings;
use crawl::shard::Shard;
use fm_cli::Failure;
use urlindex::Canonicalizer;

/// Takes the shard of a crawl from its previous owner, and brings the files of its last commit
/// into the crawl's folder. `rules` make the keys of a new store; none is made unless `begins`.
///
/// # Errors
/// Errors of the bucket and of the folder; a program without the feature.
#[cfg(not(feature = "cloud"))]
pub fn depot(_: &Path, bucket: &BucketSettings, _: (Option<Arc<dyn Canonicalizer>>, bool)) -> Result<Depot, Failure> {
    Err(unbuilt(bucket))
}

/// A shard, for reading beside its owner.
///
/// # Errors
/// Errors of the bucket; a program without the feature.
#[cfg(not(feature = "cloud"))]
pub fn reader(bucket: &BucketSettings, _: u32) -> Result<Arc<dyn Shard>, Failure> {
    Err(unbuilt(bucket))
}

/// Fails if the program was built without the feature.
///
/// # Errors
/// That it was.
#[cfg(not(feature = "cloud"))]
pub fn check_built(bucket: &BucketSettings) -> Result<(), Failure> {
    Err(unbuilt(bucket))
}

#[cfg(not(feature = "cloud"))]
fn unbuilt(bucket: &BucketSettings) -> Failure {
    let words = "this fm-crawl was built without object storage: build it with `--features cloud`";
    Failure::Usage(format!("{}: {words}", bucket.location))
}

#[cfg(feature = "cloud")]
pub use self::cloud::{check_built, depot, reader};

#[cfg(feature = "cloud")]
mod cloud {
    use std::io;

    use crawl::Error;
    use filemap::access::kept::KeptFile;
    use filemap::page::RecordKind;
    use filemap::{Lookup, Page, PageWrite, Result};
    use filemap_cloud::{CloudOptions, CloudStore, Mode, open_bucket};
    use fm_cli::times::now_ms;
    use urlindex::CrawlRules;

    use super::{Arc, BucketSettings, Canonicalizer, Depot, Failure, Path, Shard};
    use crate::failure;

    /// A shard, with what opens it again.
    struct OfStore {
        store: CloudStore,
        location: String,
        shard: u32,
    }

    fn open(
        bucket: &BucketSettings,
        shard: u32,
        mode: Mode,
        options: &CloudOptions,
    ) -> filemap_cloud::Result<Arc<dyn Shard>> {
        let store = open_bucket(&bucket.location, mode, &options.clone().shards(bucket.shards).only_shard(shard))?;
        Ok(Arc::new(OfStore { store, location: bucket.location.clone(), shard }))
    }

    fn named(location: &str, shard: u32) -> String {
        format!("shard {shard} of {location}")
    }

    /// The error of opening a crawl's shard: another process may open it at the same moment.
    fn of_opening(bucket: &BucketSettings, error: filemap_cloud::Error) -> Error {
        match error {
            filemap_cloud::Error::Fenced { .. } => {
                Error::Taken { shard: named(&bucket.location, bucket.shard), by: None }
            }
            error => Error::Store(error.into()),
        }
    }

    /// Takes the shard of a crawl from its previous owner, and brings the files of its last commit
    /// into the crawl's folder. `rules` make the keys of a new store; none is made unless
    /// `begins`.
    ///
    /// # Errors
    /// Errors of the bucket and of the folder.
    pub fn depot(
        store: &Path,
        bucket: &BucketSettings,
        (rules, begins): (Option<Arc<dyn Canonicalizer>>, bool),
    ) -> std::result::Result<Depot, Failure> {
        let options = CloudOptions::new().canonicalizer(rules.unwrap_or_else(|| Arc::new(CrawlRules::crawl())));
        let mode = if begins { Mode::Fill } else { Mode::Write };
        let open = || open(bucket, bucket.shard, mode, &options).map_err(|error| of_opening(bucket, error));
        let opened = Depot::open(store, (bucket, &owner()), open);
        opened.map_err(failure::of)
    }

    /// Fails if the program was built without the feature.
    ///
    /// # Errors
    /// None in this build.
    pub fn check_built(_: &BucketSettings) -> std::result::Result<(), Failure> {
        Ok(())
    }

    /// A shard, for reading beside its owner.
    ///
    /// # Errors
    /// Errors of the bucket.
    pub fn reader(bucket: &BucketSettings, shard: u32) -> std::result::Result<Arc<dyn Shard>, Failure> {
        let opened = open(bucket, shard, Mode::Read, &CloudOptions::new());
        opened.map_err(|error| Failure::from(filemap::Error::from(error)))
    }

    /// The name of this run, for the owner that it replaces and those that replace it.
    fn owner() -> String {
        let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let machine = if name.trim().is_empty() { "a machine without a name" } else { name.trim() };
        format!("{machine}, process {}, since {}", std::process::id(), filemap::date::format(now_ms()))
    }

    impl Shard for OfStore {
        fn name(&self) -> String {
            named(&self.location, self.shard)
        }

        fn pages(&self) -> &dyn PageWrite {
            &self.store
        }

        fn canonicalizer(&self) -> &Arc<dyn Canonicalizer> {
            self.store.canonicalizer()
        }

        fn body(&self, lookup: &Lookup<'_>) -> Result<Option<crawl::shard::Body>> {
            let found = self.store.digest(lookup)?;
            Ok(found.map(|(version, digest, bytes)| crawl::shard::Body {
                digest: digest.to_be_bytes(),
                bytes,
                time_ms: version.time_ms,
            }))
        }

        fn beside(&self, lookup: &Lookup<'_>, kind: RecordKind) -> Result<Option<Page>> {
            self.store.get_beside(lookup, kind)
        }

        fn last_sequence(&self) -> Result<u64> {
            self.store.last_sequence()
        }

        fn is_lost(&self) -> bool {
            self.store.is_fenced()
        }

        fn check(&self) -> Result<()> {
            self.store.check_owner()
        }

        fn kept(&self) -> Result<Vec<(String, u64)>> {
            self.store.kept()
        }

        fn read(&self, name: &str, each: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> Result<()> {
            self.store.read_kept(name, each)
        }

        fn newest(&self, name: &str) -> Result<Option<Vec<u8>>> {
            let reader = open_bucket(&self.location, Mode::Read, &CloudOptions::new().only_shard(self.shard))?;
            if !reader.kept()?.iter().any(|(kept, _)| kept == name) {
                return Ok(None);
            }
            let mut bytes = Vec::new();
            reader.read_kept(name, &mut |part| {
                bytes.extend_from_slice(part);
                Ok(())
            })?;
            Ok(Some(bytes))
        }

        fn commit(&self, files: &[KeptFile<'_>]) -> Result<()> {
            self.store.sync_with(files)
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn a_shard_that_another_process_opens_at_the_same_moment_is_taken_and_no_failure() {
            let bucket = BucketSettings::new("s3://bucket/pages");
            let location = || "s3://bucket/pages".to_owned();
            let fenced = of_opening(&bucket, filemap_cloud::Error::Fenced { location: location() });
            assert!(matches!(&fenced, Error::Taken { by: None, .. }), "{fenced}");
            assert!(matches!(failure::of(fenced), Failure::Locked(_)));
            let other = of_opening(&bucket, filemap_cloud::Error::NotAStore { location: location() });
            assert!(matches!(other, Error::Store(_)), "{other}");
        }
    }
}
