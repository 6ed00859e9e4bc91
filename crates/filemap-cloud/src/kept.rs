//! Files kept with a shard: a crawl's state beside its pages.
//!
//! They are committed together with the pages: one index row names their manifest, and is written
//! in the same batch as the rows of the last pages before it. So after any crash a later writer
//! finds both or neither.
//!
//! Pieces and manifests are immutable objects, named by epoch and number like segments. An
//! unchanged piece is not uploaded again. Objects that no manifest names are deleted after the
//! grace; the next writer deletes those of fenced writers.

use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::SystemTime;

use bytes::Bytes;
use filemap::access::kept::{Change, KeptFile};
use filemap_io::File;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use xxhash_rust::xxh3::xxh3_128;

use crate::bucket::Bucket;
use crate::core::Core;
use crate::deletion;
use crate::error::{Error, Result};
use crate::failpoint::Fault;
use crate::format::manifest::{Manifest, Named, Piece, is_name, length};
use crate::format::segment::SegmentId;
use crate::index::Changes;
use crate::keeping::{FOLDER, Keeping, object};
use crate::shard::Shard;
use crate::store::CloudStore;
use crate::writer::Writer;

/// The maximum length of a piece.
const PIECE_BYTES: u64 = 4 << 20;
/// The number of short pieces at which an appended file is cut again.
const PIECES: usize = 64;
/// Pieces uploaded or read in parallel.
const AT_ONCE: usize = 4;
/// Zstandard level of pieces.
const LEVEL: i32 = 1;

impl CloudStore {
    /// Makes all earlier puts durable, as [`filemap::PageWrite::sync`], together with these files,
    /// in one step. They replace all files kept before. A later owner of the store gets the pages
    /// and the files of one such step. Concurrent calls run one after the other.
    ///
    /// Costs a `PUT` for each new piece of 4 MiB, one for the manifest, and those of a sync. Holds
    /// four pieces in memory.
    ///
    /// # Errors
    ///
    /// [`filemap::Error::Unsupported`] for a handle with several shards: open one
    /// ([`CloudOptions::only_shard`](crate::CloudOptions::only_shard)). [`Error::ReadOnly`],
    /// [`Error::Fenced`], those of the object storage, [`Error::Location`] for an invalid file
    /// name; those of the files.
    ///
    /// ```
    /// use filemap_cloud::{Change, CloudOptions, KeptFile, Mode, open_bucket};
    /// use filemap_io::{Access, Dir, OsDir};
    /// let folder = tempfile::tempdir()?;
    /// let file = OsDir::open(folder.path())?.open("queue", Access::Create)?;
    /// file.write_at(b"http://example.com/", 0)?;
    /// let store = open_bucket("mem://kept", Mode::Fill, &CloudOptions::new())?;
    /// store.sync_with(&[KeptFile { name: "queue", file: &*file, change: Change::Replaced }])?;
    /// assert_eq!(store.kept()?, [("queue".to_owned(), 19)]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn sync_with(&self, files: &[KeptFile<'_>]) -> filemap::Result<()> {
        let shard = self.only()?;
        let core = &shard.core;
        let writer = core.writer.as_ref().ok_or_else(|| core.index.read_only())?;
        writer.progress.check()?;
        let mut keeping = keeping(shard, false)?;
        // The next commit retries what cannot be deleted now.
        keeping.has_swept = keeping.has_swept || sweep(core, writer, &keeping).is_ok();
        let mut next = Manifest::default();
        let mut uploads = Uploads { core, epoch: writer.epoch, waiting: Vec::new() };
        for file in files {
            let pieces = pieces(&mut uploads, &mut keeping, file)?;
            next.files.insert(file.name.to_owned(), pieces);
        }
        if keeping.manifest() == Some(&next) {
            writer.sync()?;
            keeping.own = next.files.into_keys().collect();
            return Ok(());
        }
        let text = Bytes::from(next.encode());
        let named = Named::of(uploads.push(&mut keeping, text.clone())?, &text);
        uploads.finish()?;
        if Fault::KeptBeforePages.is_planted(writer.fault) {
            core.wait(|core| async move {
                let next = core.index.next_sequence().await?;
                core.index.commit(&Changes { next, kept: Some(named.encode()), ..Changes::default() }, 1).await
            })?;
        }
        writer.sync_with(named.encode())?;
        keeping.replace(named, next);
        delete_old(core, &mut keeping);
        Ok(())
    }

    /// The kept files and their lengths, as of the last commit known to this handle; empty if
    /// there never were any. A writer reads the row and the manifest once, a follower the
    /// row each time, and the manifest if it has changed.
    ///
    /// # Errors
    ///
    /// Damage of the manifest; those of the object storage.
    pub fn kept(&self) -> filemap::Result<Vec<(String, u64)>> {
        let keeping = keeping(self.only()?, true)?;
        let files = keeping.manifest().into_iter().flat_map(|manifest| &manifest.files);
        Ok(files.map(|(name, pieces)| (name.clone(), length(pieces))).collect())
    }

    /// Reads the bytes of a file of [`CloudStore::kept`], in order; none for an unknown file.
    /// Holds four pieces in memory.
    ///
    /// # Errors
    ///
    /// Damage of a piece; those of the object storage, and those that `each` returns;
    /// [`Error::Unavailable`] on a follower, if a writer has replaced the file in the
    /// meantime.
    pub fn read_kept(&self, name: &str, each: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> filemap::Result<()> {
        let shard = self.only()?;
        let mut pieces = pieces_of(&*keeping(shard, false)?, name);
        let (mut at, mut offset, mut has_looked) = (0, 0, shard.core.writer.is_some());
        while at < pieces.len() {
            let some = pieces[at..pieces.len().min(at + AT_ONCE)].to_vec();
            let read = shard.core.wait(|core| async move {
                let reads = some.into_iter().map(|piece| {
                    let core = Arc::clone(&core);
                    async move { read(&core.bucket, piece).await }
                });
                stream::iter(reads).buffered(AT_ONCE).try_collect::<Vec<_>>().await
            });
            let read = match read {
                Err(error) if error.is_damage() && !std::mem::replace(&mut has_looked, true) => {
                    shard.core.wait(|core| async move { core.index.refresh().await })?;
                    let now = pieces_of(&*keeping(shard, true)?, name);
                    if now == pieces {
                        return Err(error.into());
                    }
                    if now.get(..at) != Some(&pieces[..at]) {
                        let operation = format!("reading {name}");
                        let what = "a writer has replaced it in the meantime; read it again";
                        return Err(shard.core.bucket.unavailable(&operation, 0, &what).into());
                    }
                    pieces = now;
                    continue;
                }
                read => read?,
            };
            at += read.len();
            for bytes in read {
                each(&bytes).map_err(|source| failed(name, offset, source))?;
                offset += bytes.len() as u64;
            }
        }
        Ok(())
    }
}

/// The state of the kept files, with the manifest loaded. `is_newest`: a follower checks
/// for a newer one.
fn keeping(shard: &Shard, is_newest: bool) -> Result<MutexGuard<'_, Keeping>> {
    let mut keeping = shard.keeping.lock().unwrap_or_else(PoisonError::into_inner);
    if keeping.known.is_none() || is_newest && shard.core.writer.is_none() {
        let known = keeping.known.take().flatten();
        keeping.known = Some(shard.core.wait(|core| async move { manifest(&core, known).await })?);
    }
    Ok(keeping)
}

/// The pieces of a file; none for an unknown file.
fn pieces_of(keeping: &Keeping, name: &str) -> Vec<Piece> {
    keeping.manifest().and_then(|manifest| manifest.files.get(name)).cloned().unwrap_or_default()
}

/// An error in reading or writing a file.
fn failed(name: &str, offset: u64, source: io::Error) -> filemap::Error {
    filemap::Error::Read { what: name.to_owned(), offset, source }
}

/// The current manifest, if there is one; read only if it differs from the known one.
async fn manifest(core: &Core, known: Option<(Named, Manifest)>) -> Result<Option<(Named, Manifest)>> {
    let mut row = core.index.kept().await?;
    loop {
        let of_known = known.as_ref().map(|(named, _)| named.encode());
        if of_known.is_some() && of_known.as_deref() == row.as_deref() {
            return Ok(known);
        }
        match of_row(&core.bucket, row.as_deref()).await {
            Err(error) if error.is_damage() && core.writer.is_none() => {
                // A writer may have replaced it in the meantime.
                core.index.refresh().await?;
                let now = core.index.kept().await?;
                if now == row {
                    return Err(error);
                }
                row = now;
            }
            found => return found,
        }
    }
}

/// The manifest that an index row names.
async fn of_row(bucket: &Bucket, row: Option<&[u8]>) -> Result<Option<(Named, Manifest)>> {
    let Some(row) = row else { return Ok(None) };
    let damaged = |object: &str, what: &str| bucket.damaged(object, what);
    let named = Named::decode(row).ok_or_else(|| damaged("the index", "the row of kept files does not decode"))?;
    let name = object(named.id);
    let packed = bucket.get(&name).await?;
    let packed = packed.ok_or_else(|| damaged(&name, "the manifest of the kept files is missing"))?;
    let text = unpacked(&packed, MANIFEST_BYTES).ok_or_else(|| damaged(&name, "it does not decompress"))?;
    if xxh3_128(&text) != named.digest {
        return Err(damaged(&name, "the manifest differs from the one that the index names"));
    }
    let manifest = Manifest::decode(&text).map_err(|what| damaged(&name, what))?;
    Ok(Some((named, manifest)))
}

/// Damage of the files that a row names: the manifest, missing pieces; with `is_full` it reads all
/// pieces.
pub(crate) async fn wrong(bucket: &Bucket, row: Option<&[u8]>, is_full: bool) -> Result<Vec<String>> {
    let manifest = match of_row(bucket, row).await {
        Ok(None) => return Ok(Vec::new()),
        Ok(Some((_, manifest))) => manifest,
        Err(Error::Damaged { object, what, .. }) => return Ok(vec![format!("{object}: {what}")]),
        Err(error) => return Err(error),
    };
    let there = bucket.list(FOLDER).await?;
    let there = there.iter().filter_map(|found| SegmentId::of_name(found.location.filename()?));
    let there: BTreeSet<SegmentId> = there.collect();
    let mut wrong = Vec::new();
    for (name, pieces) in &manifest.files {
        for piece in pieces.iter().filter(|piece| !there.contains(&piece.id)) {
            wrong.push(format!("{}: a piece of the file {name} is missing", bucket.named(&object(piece.id))));
        }
    }
    if !is_full {
        return Ok(wrong);
    }
    let pieces: Vec<Piece> = manifest.files.into_values().flatten().filter(|piece| there.contains(&piece.id)).collect();
    let mut read = stream::iter(pieces.into_iter().map(|piece| read(bucket, piece))).buffered(AT_ONCE);
    while let Some(read) = read.next().await {
        match read {
            Ok(_) => {}
            Err(Error::Damaged { object, what, .. }) => wrong.push(format!("{object}: {what}")),
            Err(error) => return Err(error),
        }
    }
    Ok(wrong)
}

/// The maximum length of a manifest: about ten million pieces.
const MANIFEST_BYTES: usize = 1 << 30;

fn unpacked(packed: &[u8], most: usize) -> Option<Vec<u8>> {
    let bytes = zstd::zstd_safe::get_frame_content_size(packed).ok()??;
    zstd::bulk::decompress(packed, usize::try_from(bytes).ok()?.min(most)).ok()
}

async fn read(bucket: &Bucket, piece: Piece) -> Result<Vec<u8>> {
    let name = object(piece.id);
    let damaged = |what: &str| bucket.damaged(&name, what);
    let packed = bucket.get(&name).await?.ok_or_else(|| damaged("a piece of a kept file is missing"))?;
    let bytes = unpacked(&packed, PIECE_BYTES as usize).ok_or_else(|| damaged("it does not decompress"))?;
    let is_it = bytes.len() as u64 == piece.bytes && xxh3_128(&bytes) == piece.digest;
    if is_it { Ok(bytes) } else { Err(damaged("the piece differs from the one that the manifest names")) }
}

/// The pieces of a file; uploads new ones.
fn pieces(uploads: &mut Uploads<'_>, keeping: &mut Keeping, kept: &KeptFile<'_>) -> filemap::Result<Vec<Piece>> {
    let KeptFile { name, file, change } = *kept;
    if !is_name(name) {
        let (location, what) =
            (uploads.core.bucket.location().to_owned(), format!("{name:?} is not a valid name of a kept file"));
        return Err(Error::Location { location, what }.into());
    }
    let before = keeping.manifest().and_then(|manifest| manifest.files.get(name)).cloned();
    let is_own = keeping.own.contains(name);
    let len = match (change, &before) {
        (Change::Same, Some(pieces)) if is_own => return Ok(pieces.clone()),
        _ => file.len().map_err(|source| failed(name, 0, source))?,
    };
    let before = before.unwrap_or_default();
    let (mut pieces, mut at) = (Vec::new(), 0);
    if change == Change::Appended && is_own && length(&before) <= len {
        pieces = before[..stay(&before)].to_vec();
        at = length(&pieces);
    }
    while at < len {
        let bytes = take(name, file, at, PIECE_BYTES.min(len - at))?;
        let digest = xxh3_128(&bytes);
        let size = bytes.len() as u64;
        // The earlier piece at this position, if its bytes are the same.
        let known = before.get(pieces.len()).filter(|piece| (piece.bytes, piece.digest) == (size, digest));
        let id = match known {
            Some(piece) => piece.id,
            None => uploads.push(keeping, Bytes::from(bytes))?,
        };
        pieces.push(Piece { id, bytes: size, digest });
        at += size;
    }
    Ok(pieces)
}

/// Number of pieces that an appended file keeps: all, or those before the first short one if too
/// many are short.
fn stay(before: &[Piece]) -> usize {
    let is_short = |piece: &Piece| piece.bytes < PIECE_BYTES;
    let short = before.iter().filter(|piece| is_short(piece)).count();
    if short < PIECES { before.len() } else { before.iter().position(is_short).unwrap_or(before.len()) }
}

/// Reads a range of a file.
fn take(name: &str, file: &dyn File, offset: u64, bytes: u64) -> filemap::Result<Vec<u8>> {
    let mut taken = vec![0; bytes as usize];
    let mut at = 0;
    while at < taken.len() {
        let read = file.read_at(&mut taken[at..], offset + at as u64);
        match read.map_err(|source| failed(name, offset, source))? {
            0 => return Err(failed(name, offset, io::ErrorKind::UnexpectedEof.into())),
            read => at += read,
        }
    }
    Ok(taken)
}

/// Running uploads.
struct Uploads<'a> {
    core: &'a Arc<Core>,
    epoch: u64,
    waiting: Vec<(SegmentId, Vec<u8>)>,
}

impl Uploads<'_> {
    fn push(&mut self, keeping: &mut Keeping, bytes: Bytes) -> filemap::Result<SegmentId> {
        keeping.last_number += 1;
        let id = SegmentId { epoch: self.epoch, number: keeping.last_number };
        let packed = zstd::bulk::compress(&bytes, LEVEL).map_err(|source| failed("a piece", 0, source))?;
        self.waiting.push((id, packed));
        if self.waiting.len() >= AT_ONCE {
            self.finish()?;
        }
        Ok(id)
    }

    /// Waits until all uploads are done.
    fn finish(&mut self) -> Result<()> {
        let waiting = std::mem::take(&mut self.waiting);
        self.core.wait(|core| async move {
            let uploads = waiting.into_iter().map(|(id, bytes)| {
                let core = Arc::clone(&core);
                async move {
                    let name = object(id);
                    match core.bucket.claim(&name, Bytes::from(bytes)).await? {
                        true => Ok(()),
                        false => Err(Error::StoreUnsuitable {
                            location: core.bucket.location().to_owned(),
                            what: format!(
                                "{} exists with other bytes: two writers had one epoch",
                                core.bucket.named(&name)
                            ),
                        }),
                    }
                }
            });
            stream::iter(uploads).buffer_unordered(AT_ONCE).try_collect().await
        })
    }
}

/// Deletes objects left by earlier owners that no manifest names. Only those of earlier epochs:
/// this writer's own uploads may not be in a manifest yet.
fn sweep(core: &Arc<Core>, writer: &Writer, keeping: &Keeping) -> Result<()> {
    let named = keeping.known.iter().flatten().flat_map(|(named, manifest)| manifest.objects().chain([named.id]));
    let named: BTreeSet<SegmentId> = named.collect();
    let oldest = SystemTime::now().checked_sub(core.options.grace).unwrap_or(SystemTime::UNIX_EPOCH);
    let epoch = writer.epoch;
    core.wait(move |core| async move {
        let mut left = Vec::new();
        for found in core.bucket.list(FOLDER).await? {
            let Some(id) = found.location.filename().and_then(SegmentId::of_name) else { continue };
            let is_left = id.epoch < epoch && !named.contains(&id) && SystemTime::from(found.last_modified) <= oldest;
            if is_left {
                left.push(object(id));
            }
        }
        deletion::delete(&core, &left).await
    })
}

/// Deletes objects whose grace is over, up to the first that cannot be deleted now: the next
/// commit or the next owner retries the rest. Called after a commit, which has proved that this
/// writer owns the shard.
fn delete_old(core: &Arc<Core>, keeping: &mut Keeping) {
    let mut old = keeping.take_old(core.options.grace).into_iter();
    for (since, id) in old.by_ref() {
        let deleted = core.wait(move |core| async move { core.bucket.delete(&object(id)).await });
        if deleted.is_err() {
            keeping.stale.push((since, id));
            break;
        }
    }
    keeping.stale.extend(old);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_pieces_stay_for_good_and_short_ones_are_cut_anew_when_they_are_many() {
        let piece = |bytes| Piece { id: SegmentId { epoch: 1, number: 1 }, bytes, digest: 0 };
        let of = |full: usize, short: usize| [vec![piece(PIECE_BYTES); full], vec![piece(7); short]].concat();
        assert_eq!(stay(&of(PIECES * 4, 0)), PIECES * 4);
        assert_eq!(stay(&of(PIECES * 4, PIECES - 1)), PIECES * 5 - 1);
        assert_eq!(stay(&of(PIECES * 4, PIECES)), PIECES * 4);
        assert_eq!(stay(&of(0, PIECES)), 0);
    }
}
