//! Source or target of a copy: a local store, in one folder or several, one behind a server or one
//! in a bucket, with all its versions and its canonicaliser.

use std::path::Path;
use std::sync::Arc;

use filemap::sharded::ShardedStore;
use filemap::store::StoredVersion;
use filemap::{PageStore, PageWrite};
use filemap_http::Client;
use fm_cli::Failure;
use urlindex::Canonicalizer;

use crate::flags::Shared;
use crate::stores::bucket;
#[cfg(feature = "cloud")]
use crate::stores::bucket::For;
use crate::stores::served::Served;
use crate::stores::{opening, remote, shards};

/// The time after which a checkpoint expires whose process has died.
#[cfg(feature = "cloud")]
const CHECKPOINT_FOR: std::time::Duration = std::time::Duration::from_secs(3600);

/// A store, wherever it is.
pub enum Place {
    Here(PageStore),
    Shards(ShardedStore),
    Server(Box<Client>),
    #[cfg(feature = "cloud")]
    Bucket(Box<filemap_cloud::CloudStore>),
}

/// Every version of a store; versions of a key are adjacent.
pub type Versions<'a> = Box<dyn Iterator<Item = filemap::Result<StoredVersion>> + 'a>;

impl Place {
    /// A store to read, while another process may write it.
    pub fn to_read(path: &Path, shared: &Shared) -> Result<Place, Failure> {
        opening::refuse_loss(path, shared)?;
        #[cfg(feature = "cloud")]
        if let Some(location) = bucket::location(path) {
            let store = bucket::opened(location, For::Reading, bucket::options()?)?;
            return Ok(Place::Bucket(Box::new(store)));
        }
        bucket::refuse_unbuilt(path)?;
        if let Some(store) = opening::shards_to_read(path, shared)? {
            return Ok(Place::Shards(store));
        }
        Ok(match remote::open(path)? {
            Some(client) => Place::Server(Box::new(client)),
            None => Place::Here(opening::local_to_read(path, shared)?),
        })
    }

    /// A store to fill, with this canonicaliser. It is made if missing.
    pub fn to_fill(path: &Path, canonicalizer: &Arc<dyn Canonicalizer>, shared: &Shared) -> Result<Place, Failure> {
        if shared.accept_loss && (bucket::is_bucket(path) || remote::is_server(path)) {
            return Err(opening::accepts_loss());
        }
        #[cfg(feature = "cloud")]
        if let Some(location) = bucket::location(path)
            && let Some(there) = bucket::opened_if_there(location)?
        {
            // Opening for writing takes the store from its writer; a refused copy must not do
            // that.
            refuse_other(path, canonicalizer, there.canonicalizer())?;
        }
        let place = Place::opened_to_fill(path, canonicalizer, shared)?;
        refuse_other(path, canonicalizer, &place.canonicalizer(path)?)?;
        Ok(place)
    }

    fn opened_to_fill(path: &Path, canonicalizer: &Arc<dyn Canonicalizer>, shared: &Shared) -> Result<Place, Failure> {
        #[cfg(feature = "cloud")]
        if let Some(location) = bucket::location(path) {
            let filling = For::Filling(Arc::clone(canonicalizer));
            let store = bucket::opened(location, filling, bucket::options()?)?;
            return Ok(Place::Bucket(Box::new(store)));
        }
        bucket::refuse_unbuilt(path)?;
        if let Some(store) = opening::shards_to_fill(path, canonicalizer, None, shared)? {
            return Ok(Place::Shards(store));
        }
        Ok(match remote::open(path)? {
            Some(client) => Place::Server(Box::new(client)),
            None => Place::Here(opening::local_to_fill_like(path, canonicalizer, shared)?),
        })
    }

    /// The canonicaliser of the keys of this store; `path` is for the error.
    pub fn canonicalizer(&self, path: &Path) -> Result<Arc<dyn Canonicalizer>, Failure> {
        match self {
            Place::Here(store) => Ok(Arc::clone(store.canonicalizer())),
            Place::Shards(store) => Ok(Arc::clone(store.canonicalizer())),
            #[cfg(feature = "cloud")]
            Place::Bucket(store) => Ok(Arc::clone(store.canonicalizer())),
            Place::Server(client) => {
                let known = client.rules().and_then(|(name, version)| urlindex::canonical::named(name, version));
                let path = path.display();
                known.ok_or_else(|| {
                    Failure::Usage(format!(
                        "{path}: its keys were made by a canonicaliser that this program does not know"
                    ))
                })
            }
        }
    }

    /// The store as it is now, kept by a checkpoint until it is closed; `path` is for the error.
    pub fn held(&self, path: &Path) -> Result<Place, Failure> {
        #[cfg(feature = "cloud")]
        if let Place::Bucket(store) = self {
            return Ok(Place::Bucket(Box::new(store.checkpoint("copy", CHECKPOINT_FOR)?)));
        }
        Err(no_checkpoint(path))
    }

    /// The store, for reading and writing.
    pub fn store(&self) -> &dyn PageWrite {
        match self {
            Place::Here(store) => store,
            Place::Shards(store) => store,
            Place::Server(client) => &**client,
            #[cfg(feature = "cloud")]
            Place::Bucket(store) => &**store,
        }
    }

    /// Every version. Errors of a server name it by `location`.
    pub fn versions<'a>(
        &'a self,
        canonicalizer: &'a dyn Canonicalizer,
        location: &'a str,
    ) -> Result<Versions<'a>, Failure> {
        Ok(match self {
            Place::Here(store) => Box::new(store.stored_by_key()),
            Place::Shards(store) => Box::new(store.stored_by_key()),
            #[cfg(feature = "cloud")]
            Place::Bucket(store) => Box::new(store.stored_by_key()),
            Place::Server(client) => Box::new(Served::new(client, canonicalizer, location)?),
        })
    }

    /// Number of concurrent puts of different pages.
    pub fn puts_at_once(&self) -> usize {
        match self {
            Place::Here(_) | Place::Shards(_) => 1,
            _ => 16,
        }
    }

    /// The stores in folders here, which may have rules of erasures.
    pub fn folders(&self) -> &[PageStore] {
        match self {
            Place::Here(store) => std::slice::from_ref(store),
            Place::Shards(store) => store.members(),
            _ => &[],
        }
    }
}

/// The refusal of a checkpoint of a store that has none.
pub fn no_checkpoint(path: &Path) -> Failure {
    let path = shown(path);
    Failure::Usage(format!("{path}: --checkpoint is for a copy from object storage, from an s3:// location"))
}

/// Refuses a store with another canonicaliser.
fn refuse_other(path: &Path, wanted: &Arc<dyn Canonicalizer>, own: &Arc<dyn Canonicalizer>) -> Result<(), Failure> {
    let (wanted, own) = (named(&**wanted), named(&**own));
    if own == wanted {
        return Ok(());
    }
    let path = shown(path);
    Err(Failure::Usage(format!("{path} has the canonicaliser {own}, the other store has {wanted}: nothing was copied")))
}

/// Returns whether two paths name one store, in any spelling, or one names a folder of the other.
pub fn is_same(one: &Path, other: &Path) -> bool {
    let folders = |path: &Path| shards::members(path).ok().flatten().unwrap_or_else(|| vec![path.to_owned()]);
    if shards::is_shards(one) || shards::is_shards(other) {
        return folders(one).iter().any(|one| folders(other).iter().any(|other| is_same_folder(one, other)));
    }
    match (bucket::location(one), bucket::location(other)) {
        (Some(one), Some(other)) => bucket::parts(one) == bucket::parts(other),
        (None, None) => is_same_folder(one, other),
        _ => false,
    }
}

fn is_same_folder(one: &Path, other: &Path) -> bool {
    let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let canonical = |path: &Path| path.canonicalize().unwrap_or_else(|_| absolute(path));
    // Slashes at the end are ignored, also in the address of a server.
    canonical(one) == canonical(other)
}

/// A path for messages, without possible secrets in a remote location.
pub fn shown(path: &Path) -> String {
    match bucket::location(path) {
        Some(location) => bucket::shown(location).to_owned(),
        None => remote::shown(path),
    }
}

fn named(canonicalizer: &dyn Canonicalizer) -> String {
    format!("{} {}", canonicalizer.name(), canonicalizer.version())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_store_is_known_however_it_is_written_and_no_secret_is_shown() {
        let is_same = |one: &str, other: &str| is_same(Path::new(one), Path::new(other));
        assert!(is_same("s3://b/p", "S3://b/p/") && is_same("http://h/a", "http://h/a/") && is_same(".", "./src/.."));
        assert!(is_same("shards:a,b", "shards:c,./a") && is_same("shards:a,b", "b") && !is_same("shards:a,b", "c"));
        assert!(!is_same("s3://b/p", "s3://b/q") && !is_same("s3://b/p", "p") && !is_same("p", "q"));
        for secret in ["s3://key:5e3c7e7@b/p", "s3://key:a/5e3c7e7@b", "http://user:5e3c7e7@h/", "https://5e3c7e7@h"] {
            assert!(!shown(Path::new(secret)).contains("5e3c7e7"), "{secret}");
        }
        assert_eq!(
            ["s3://b/p", "http://h/", "a@b"].map(|path| shown(Path::new(path))),
            ["s3://b/p", "http://h/", "a@b"]
        );
    }
}
