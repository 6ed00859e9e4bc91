//! Shard of a store in object storage, for a crawl into it. Needs feature `cloud`.

use crawl::files::depot::Depot;
use crawl::settings::Settings;
use fm_cli::Failure;

use super::Args;

/// The shard of a crawl into object storage, with the files of its last commit in the crawl's
/// folder; `None` for a crawl into a folder. Takes the shard from its previous owner.
#[cfg(not(feature = "cloud"))]
pub(super) fn depot(_: &Args, settings: &Settings) -> Result<Option<Depot>, Failure> {
    let Some(bucket) = &settings.bucket else { return Ok(None) };
    let words = "this fm-crawl was built without object storage: build it with `--features cloud`";
    Err(Failure::Usage(format!("{}: {words}", bucket.location)))
}

#[cfg(feature = "cloud")]
pub(super) use self::cloud::depot;

#[cfg(feature = "cloud")]
mod cloud {
    use std::io;
    use std::sync::Arc;

    use crawl::shard::{Body, Change, Shard, StateFile};
    use filemap::canonical::Canonicalizer;
    use filemap::page::RecordKind;
    use filemap::{Lookup, Page, PageWrite, Result};
    use filemap_cloud::{CloudOptions, CloudStore, KeptFile, Mode, open_bucket};
    use fm_cli::{canonical, disk_cache};
    use urlindex::CrawlRules;

    use super::{Args, Depot, Failure, Settings};
    use crate::failure;

    /// A shard, and its name.
    struct OfStore {
        store: CloudStore,
        name: String,
    }

    pub fn depot(args: &Args, settings: &Settings) -> std::result::Result<Option<Depot>, Failure> {
        let Some(bucket) = &settings.bucket else { return Ok(None) };
        let rules = args.rules.as_ref().map(canonical::Canonical::canonicalizer);
        let options = CloudOptions::new().canonicalizer(rules.unwrap_or_else(|| Arc::new(CrawlRules::crawl())));
        let options = options.shards(bucket.shards).only_shard(bucket.shard);
        let options = match disk_cache::of_environment()? {
            Some((folder, bytes)) => options.disk_cache(folder, bytes),
            None => options,
        };
        // Without start pages the crawl of the shard is continued.
        let begins = !args.seed.is_empty() || !args.seeds.is_empty();
        let mode = if begins { Mode::Fill } else { Mode::Write };
        let open = || {
            let store = open_bucket(&bucket.location, mode, &options)?;
            let name = format!("shard {} of {}", bucket.shard, bucket.location);
            Ok(Arc::new(OfStore { store, name }) as Arc<dyn Shard>)
        };
        Depot::open(&args.store, bucket, open).map(Some).map_err(failure::of)
    }

    impl Shard for OfStore {
        fn name(&self) -> String {
            self.name.clone()
        }

        fn pages(&self) -> &dyn PageWrite {
            &self.store
        }

        fn canonicalizer(&self) -> &Arc<dyn Canonicalizer> {
            self.store.canonicalizer()
        }

        fn body(&self, lookup: &Lookup<'_>) -> Result<Option<Body>> {
            let found = self.store.digest(lookup)?;
            Ok(found.map(|(version, digest, bytes)| Body {
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

        fn kept(&self) -> Result<Vec<(String, u64)>> {
            self.store.kept()
        }

        fn read(&self, name: &str, each: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> Result<()> {
            self.store.read_kept(name, each)
        }

        fn commit(&self, files: &[StateFile<'_>]) -> Result<()> {
            let kept = files.iter().map(|file| KeptFile {
                name: file.name,
                file: file.file,
                change: match file.change {
                    Change::Same => filemap_cloud::Change::Same,
                    Change::Appended => filemap_cloud::Change::Appended,
                    Change::Replaced => filemap_cloud::Change::Replaced,
                },
            });
            self.store.sync_with(&kept.collect::<Vec<_>>())
        }
    }
}
