//! The set that `add` and `check` use: in files, behind a server, or on Redis.

use std::path::Path;
use std::sync::Arc;

use filemap_http::{Ack, Added, SeenClient};
use fm_cli::Failure;
use urlindex::canonical::named;
use urlindex::idempotent::RequestId;
use urlindex::stored::{AnySet, StoredSet};
use urlindex::{Canonicalizer, DiskUrlSet, SeenSet, Verdict};
use urlindex_redis::RedisUrlSet;

use super::redis;
use super::sets::{self, MemoryArg};
use crate::stores::remote;
use fm_cli::canonical::{self, Canonical};

/// Largest batch that is checked one by one in a set on disk.
const FEW: usize = 64;

/// A set to query.
pub enum Asked {
    /// In files.
    Local(Box<StoredSet>),
    /// Behind a server.
    Served(SeenClient),
    /// On Redis.
    Redis(Box<RedisUrlSet>),
}

/// A set, and the canonicaliser of its URLs.
pub type AskedBy = (Asked, Arc<dyn Canonicalizer>);

/// The set behind a server or on Redis, and the canonicaliser of its URLs; `None` if the path is
/// neither.
pub fn served(path: &Path, memory: &MemoryArg, asked: Option<&Canonical>) -> Result<Option<AskedBy>, Failure> {
    if let Some(location) = redis::location(path) {
        if memory.memory.is_some() {
            return Err(Failure::Usage("--memory does not apply to a set on Redis; leave it out".to_owned()));
        }
        let (set, rules) = redis::open(location, asked)?;
        return Ok(Some((Asked::Redis(Box::new(set)), rules)));
    }
    let Some(client) = remote::open_seen(path)? else { return Ok(None) };
    if memory.memory.is_some() {
        return Err(Failure::Usage("--memory is a matter of the server; leave it out".to_owned()));
    }
    let (name, version) = client.rules();
    let rules = named(name, version).ok_or_else(|| {
        Failure::Usage(format!("this program does not know the rules {name} version {version} of {}", path.display()))
    })?;
    if let Some(other) = asked.map(Canonical::canonicalizer).filter(|other| !sets::is_same(&**other, &*rules)) {
        let (path, rules, other) = (path.display(), canonical::words(&*rules), canonical::words(&*other));
        return Err(Failure::Usage(format!(
            "{path} has the rules `{rules}`, not `{other}`; leave --canonicalizer out"
        )));
    }
    Ok(Some((Asked::Served(client), rules)))
}

impl Asked {
    /// Returns whether large batches are faster.
    pub fn gathers(&self) -> bool {
        match self {
            Asked::Local(set) => matches!(set.any(), AnySet::Disk(_)),
            Asked::Served(_) | Asked::Redis(_) => true,
        }
    }

    /// The set, if it is on disk in local files.
    pub fn disk(&self) -> Option<&DiskUrlSet> {
        match self {
            Asked::Local(set) => match set.any() {
                AnySet::Disk(disk) => Some(disk),
                _ => None,
            },
            Asked::Served(_) | Asked::Redis(_) => None,
        }
    }

    /// Adds or only checks canonical URLs, and returns their verdicts; after a failure, the
    /// verdicts before it.
    pub fn ask(
        &self,
        path: &Path,
        urls: &[&[u8]],
        is_adding: bool,
        verdicts: &mut Vec<Verdict>,
    ) -> Result<(), Failure> {
        verdicts.clear();
        match self {
            Asked::Local(set) => ask(set, urls, is_adding, verdicts).map_err(|error| sets::failure(path, error)),
            Asked::Served(client) => {
                let answers = if is_adding { added(client, urls)? } else { client.check(urls)? };
                for (url, answer) in urls.iter().zip(answers) {
                    let url = String::from_utf8_lossy(url);
                    let none = || Failure::Io(format!("{} does not accept {url} as a URL", path.display()));
                    verdicts.push(answer.ok_or_else(none)?);
                }
                Ok(())
            }
            // Its errors name the set.
            Asked::Redis(set) => match is_adding {
                true => set.check_and_insert_batch(urls, verdicts),
                false => set.contains_batch(urls, verdicts),
            }
            .map_err(Failure::from),
        }
    }

    /// Makes what was added durable.
    pub fn sync(&self, path: &Path) -> Result<(), Failure> {
        match self {
            Asked::Local(set) => set.sync().map_err(|error| sets::failure(path, error)),
            // A server makes URLs durable before it answers.
            Asked::Served(_) => Ok(()),
            Asked::Redis(set) => set.sync().map_err(Failure::from),
        }
    }

    /// Makes what was added durable, and closes the set.
    pub fn close(self, path: &Path) -> Result<(), Failure> {
        match self {
            Asked::Local(set) => set.close().map_err(|error| sets::failure(path, error)),
            Asked::Served(_) => Ok(()),
            Asked::Redis(set) => set.sync().map_err(Failure::from),
        }
    }
}

fn ask(set: &StoredSet, urls: &[&[u8]], is_adding: bool, verdicts: &mut Vec<Verdict>) -> urlindex::Result<()> {
    // If checked one by one, a set on disk tries its cache and filters first.
    if urls.len() <= FEW && matches!(set.any(), AnySet::Disk(_)) {
        for url in urls {
            verdicts.push(if is_adding { set.check_and_insert(url) } else { set.contains(url) }?);
        }
        return Ok(());
    }
    match is_adding {
        true => set.check_and_insert_batch(urls, verdicts),
        false => set.contains_batch(urls, verdicts),
    }
}

/// Adds URLs; after a broken connection they are sent once more with the same id.
fn added(client: &SeenClient, urls: &[&[u8]]) -> Result<Vec<Option<Verdict>>, Failure> {
    let id = Some(RequestId::now());
    match client.add(id, urls, Ack::Durable).or_else(|_| client.add(id, urls, Ack::Durable))? {
        Added::Verdicts(verdicts) => Ok(verdicts),
        Added::Ahead(why) | Added::Refused(why) => Err(Failure::Io(why)),
        Added::Forgotten => Err(Failure::Io("this machine's clock is far behind the server's: set it".to_owned())),
    }
}
