//! Creates segments, ahead of use or when needed, and chooses their ordinals.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use filemap_io::{Access, Advice, files};

use crate::error::{Error, Result};
use crate::failpoint::{Fault, planted};
use crate::format::header::FileHeader;
use crate::logs::segments::begun::Begun;
use crate::logs::segments::known::Known;
use crate::logs::segments::{FIRST_RECORD, OpenSegment, Segment, Segments};
use crate::record::now_ms;
use crate::sync::lock;

/// State shared by everything that adds or removes segments.
#[derive(Debug, Default)]
pub(super) struct Making {
    /// A log segment created ahead of its use.
    spare: Option<Arc<Segment>>,
    /// A durable segment that could not be listed as begun yet.
    unnamed: Option<Arc<Segment>>,
    /// Greater than all ordinals assigned so far.
    next: u64,
    /// Numbers of lost segments, never reused: references to a lost segment must not lead to
    /// another.
    lost: HashSet<u16>,
    /// The list of begun segments, in a writer's value log.
    begun: Option<Begun>,
}

impl Segments {
    /// Excludes the numbers of lost segments from use.
    pub(crate) fn avoid(&self, ids: impl Iterator<Item = u16>) {
        lock(&self.making).lost.extend(ids);
    }

    /// Keeps the list of begun segments from now on.
    pub(crate) fn keep_list(&self, begun: Begun) {
        lock(&self.making).begun = Some(begun);
    }

    /// Removes unused segments from the list of begun ones. On return their files may be removed.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn strike(&self, ordinals: &[u64]) -> Result<()> {
        lock(&self.making).begun.as_mut().map_or(Ok(()), |begun| begun.strike(ordinals))
    }

    /// Creates the next log segment ahead of its use, unless one is ready. This takes syncs that
    /// no put should wait for. `floor` is the next sequence or less.
    ///
    /// # Errors
    /// Those of [`Segments::begin`].
    pub(crate) fn prepare(&self, floor: u64) -> Result<()> {
        let mut making = lock(&self.making);
        if making.spare.is_none() {
            making.spare = Some(self.create_next(&mut making, floor)?);
            self.has_spare.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// Excludes ordinals below `next`.
    pub(crate) fn pass_over(&self, next: u64) {
        let mut making = lock(&self.making);
        making.next = making.next.max(next);
    }

    /// Returns true if a segment is ready for use.
    pub(crate) fn is_prepared(&self) -> bool {
        self.has_spare.load(Ordering::Acquire)
    }

    /// Adds the next segment at the end of the log, opened for appending. Creates it unless one is
    /// ready.
    ///
    /// # Errors
    /// `Io`; `Full` if all 65,536 numbers are in use; `Corrupt` if a file with content has its
    /// name. The log is then unchanged.
    pub(crate) fn begin(&self, floor: u64) -> Result<OpenSegment> {
        // Held until the segment is listed: no other thread may create its file meanwhile.
        let mut making = lock(&self.making);
        let segment = match making.spare.take() {
            Some(spare) => spare,
            None => self.create_next(&mut making, floor)?,
        };
        // Opened before it counts: if that fails, it stays ready for the next attempt.
        let opened = self.writable(&segment);
        if opened.is_err() {
            making.spare = Some(Arc::clone(&segment));
        }
        self.has_spare.store(opened.is_err(), Ordering::Release);
        let file = opened?;
        self.add(&segment);
        Ok((segment, file))
    }

    /// Adds and opens a segment for compaction to write. For `floor` see [`Segment::floor`].
    ///
    /// # Errors
    /// Those of [`Segments::begin`].
    pub(crate) fn begin_output(&self, floor: u64, level: u8) -> Result<OpenSegment> {
        let mut making = lock(&self.making);
        let ordinal = self.next_ordinal(&making);
        making.next = ordinal + 1;
        drop(making);
        // No lock is held: a put that rolls the log must not wait for these syncs.
        let segment = self.create(FileHeader { floor, is_output: true, level, ..self.header(ordinal) })?;
        let file = self.writable(&segment).inspect_err(|_| {
            // Nothing leads to it. If the removal fails, the next writer removes the file.
            let _ = self.dir.remove(&segment.name());
        })?;
        let making = lock(&self.making);
        self.add(&segment);
        drop(making);
        Ok((segment, file))
    }

    fn add(&self, segment: &Arc<Segment>) {
        let mut list = Vec::clone(&self.all());
        list.push(Arc::clone(segment));
        self.known.store(Arc::new(Known::new(list)));
    }

    /// The next ordinal with a free number, greater than all assigned so far.
    fn next_ordinal(&self, making: &Making) -> u64 {
        let known = self.known.load();
        let next = known.list.last().map_or(0, |last| last.ordinal + 1).max(making.next);
        let mut all = next..next + (1 << 17);
        let leaving = lock(&self.leaving).clone();
        let is_leaving = |id: u16| leaving.iter().any(|s| s.id == id);
        let is_taken = |id: u16| known.get(id).is_some() || is_leaving(id) || making.lost.contains(&id);
        let is_free = |ordinal: &u64| !is_taken(*ordinal as u16);
        let is_preferred = |ordinal: &u64| u32::from(*ordinal as u16) < self.bounds.numbers && is_free(ordinal);
        all.clone().find(is_preferred).or_else(|| all.find(is_free)).unwrap_or(next)
    }

    /// Creates the next log segment. A file in its way blocks it until moved: no name is skipped.
    fn create_next(&self, making: &mut Making, floor: u64) -> Result<Arc<Segment>> {
        let segment = match making.unnamed.take() {
            Some(segment) => segment,
            None => {
                let ordinal = self.next_ordinal(making);
                if planted(Fault::SegmentsNamedEarly)
                    && let Some(begun) = &mut making.begun
                {
                    begun.add(ordinal)?;
                }
                self.create(FileHeader { floor, ..self.header(ordinal) })?
            }
        };
        making.next = segment.ordinal + 1;
        let named = making.begun.as_mut().map_or(Ok(()), |begun| begun.add(segment.ordinal));
        if named.is_err() {
            // It may be listed, so its file must not be created again.
            making.unnamed = Some(Arc::clone(&segment));
        }
        named.map(|()| segment)
    }

    fn header(&self, ordinal: u64) -> FileHeader {
        FileHeader::new(self.family.kind, self.store_id, ordinal, now_ms())
    }

    /// Creates a segment with its header, durable in name and content.
    fn create(&self, header: FileHeader) -> Result<Arc<Segment>> {
        let id = header.ordinal as u16;
        let name = (self.family.name)(id);
        if self.known.load().get(id).is_some() {
            return Err(Error::full(&name, "all 65,536 segment numbers are in use"));
        }
        self.remove_unborn(&name)?;
        let file = self.dir.open(&name, Access::Create).map_err(Error::io("create", &name))?;
        if let Err(e) = file.write_at(&header.encode(), 0) {
            let _ = self.dir.remove(&name);
            return Err(Error::io("create", &name)(e));
        }
        if !planted(Fault::NewSegmentNotSynced) {
            file.sync().map_err(Error::io("sync", &name))?;
        }
        if !planted(Fault::NewSegmentNameNotSynced) {
            files::sync_folder(&*self.dir)?;
        }
        file.advise(Advice::Random, 0, 0);
        let segment = Segment::new(self.family, &header, Some(file), FIRST_RECORD);
        segment.used.store(self.clock.load(Ordering::Relaxed), Ordering::Relaxed);
        self.keep_open(&mut lock(&self.opened), &segment);
        Ok(segment)
    }

    /// Removes a file without records, whose creation a crash interrupted.
    ///
    /// # Errors
    /// `Corrupt` if the file has content; `Io`.
    fn remove_unborn(&self, name: &str) -> Result<()> {
        let file = match self.dir.open(name, Access::Write) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            opened => opened.map_err(Error::io("open", name))?,
        };
        if file.len().map_err(Error::io("measure", name))? > FIRST_RECORD {
            return Err(Error::corrupt(name, 0, "a file that should not exist yet holds something; move it away"));
        }
        self.dir.remove(name).map_err(Error::io("remove", name))
    }
}
