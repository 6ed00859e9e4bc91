//! Probes the guarantees that a store needs from object storage, before a store is created there.
//!
//! If several writers create one object at once, exactly one must win and the others must get an
//! error: fencing depends on it. Some S3-compatible servers ignore the condition, or check it too
//! early; with these, acknowledged pages would be lost when the owner changes.
//!
//! Conditional replacement (`If-Match`) is probed too: without it, old manifests of the index are
//! not collected.

use bytes::Bytes;
use futures_util::future::join_all;
use object_store::{ObjectStoreExt, PutMode, PutOptions, PutPayload, UpdateVersion};

use crate::bucket::Bucket;
use crate::error::{Error, Result};

/// Number of rounds of the race, and of writers in each.
const ROUNDS: usize = 3;
const WRITERS: usize = 8;

/// The result of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// True if an object can be replaced on the condition that it is unchanged.
    pub(crate) replaces_if_match: bool,
}

/// Probes a bucket. `token` is unique, so objects of an earlier probe do not interfere.
pub(crate) async fn probe(bucket: &Bucket, token: &str) -> Result<Found> {
    for round in 0..ROUNDS {
        race(bucket, &format!("probe/{token}-{round}")).await?;
    }
    Ok(Found { replaces_if_match: replaces_if_match(bucket, &format!("probe/{token}-match")).await? })
}

async fn race(bucket: &Bucket, name: &str) -> Result<()> {
    let writer = |nth: usize| {
        let bucket = bucket.clone();
        let name = name.to_owned();
        tokio::spawn(async move { bucket.create(&name, Bytes::from(format!("writer {nth}"))).await })
    };
    let mut winners = Vec::new();
    for (nth, won) in join_all((0..WRITERS).map(writer)).await.into_iter().enumerate() {
        let won = won.map_err(|error| bucket.unavailable("the probe", 0, &error))??;
        if won {
            winners.push(nth);
        }
    }
    let kept = bucket.get(name).await?;
    bucket.delete(name).await?;
    let kept = kept.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let is_kept = |winner: &usize| kept.as_ref().is_some_and(|kept| *kept == format!("writer {winner}"));
    match winners[..] {
        [ref winner] if is_kept(winner) => Ok(()),
        // The winner's answer was lost, and its retry found that the object exists.
        [] if kept.is_some() => Ok(()),
        [] => Err(bucket.unavailable("the probe", 0, &"the storage refused every creation of an object: 409")),
        _ => {
            let told = winners.len();
            let what = format!("{WRITERS} writers created one object at once, and {told} of them succeeded");
            Err(Error::StoreUnsuitable { location: bucket.location().to_owned(), what })
        }
    }
}

/// Returns whether a replacement with the right tag succeeds twice, and one with a wrong tag is
/// refused.
async fn replaces_if_match(bucket: &Bucket, name: &str) -> Result<bool> {
    let (objects, path) = (bucket.of_index(), bucket.path(name));
    bucket.create(name, Bytes::from_static(b"0")).await?;
    let first = objects.head(&path).await.map_err(|error| bucket.unavailable("the probe", 0, &error))?;
    let replace = async |tag: Option<String>, bytes: &'static [u8]| {
        let mode = PutMode::Update(UpdateVersion { e_tag: tag, version: None });
        objects.put_opts(&path, PutPayload::from_static(bytes), PutOptions { mode, ..PutOptions::default() }).await
    };
    let mut is_kept = false;
    if let Ok(second) = replace(first.e_tag.clone(), b"1").await
        && replace(second.e_tag, b"2").await.is_ok()
    {
        is_kept = matches!(replace(first.e_tag, b"3").await, Err(object_store::Error::Precondition { .. }));
    }
    bucket.delete(name).await?;
    Ok(is_kept)
}
