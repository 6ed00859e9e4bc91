//! What an object store must keep, tried before a store is written there.
//!
//! Of several writers that create one object at once, one wins and the others are told: fencing
//! stands on that. Some servers that speak S3 accept the condition and ignore it, or check it
//! before they wait; on those acknowledged pages would be lost when an owner changes.
//!
//! Conditional replacement (`If-Match`) is tried too: without it, old manifests of the index are
//! not collected.

use bytes::Bytes;
use futures_util::future::join_all;
use object_store::{ObjectStoreExt, PutMode, PutOptions, PutPayload, UpdateVersion};

use crate::bucket::Bucket;
use crate::error::{Error, Result};

/// Rounds of the race, and writers in each.
const ROUNDS: usize = 3;
const WRITERS: usize = 8;

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// An object can be replaced only if it is the one that was read.
    pub(crate) replaces_if_match: bool,
}

/// Tries a bucket. `token` is unique: what was tried with it before is not met.
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
        // The answer to the winner was lost, and its repetition was told that there is an object.
        [] if kept.is_some() => Ok(()),
        [] => Err(bucket.unavailable("the probe", 0, &"the storage refused every creation of an object: 409")),
        _ => {
            let told = winners.len();
            let what = format!("of {WRITERS} writers that created one object at once, {told} were told that they had");
            Err(Error::StoreUnsuitable { location: bucket.location().to_owned(), what })
        }
    }
}

/// Whether a replacement with the right tag succeeds twice, and one with a wrong tag is refused.
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
