//! Assembles the shared state of a writing handle from the opened files and the log state that a
//! recovery or repair found.

use std::sync::Arc;

use filemap_io::{Access, Dir};

use crate::error::Result;
use crate::format::rules::Rules;
use crate::format::superblock::Superblock;
use crate::handle::log::Log;
use crate::handle::reading::Reading;
use crate::handle::reading::{End, Opened};
use crate::handle::recover::{self, Absent, Witness};
use crate::handle::writing::Writing;
use crate::index::address::{IndexWriter, Loaded, Owner, load};
use crate::index::memtable::Memtable;
use crate::index::segment_table::SegmentTable;
use crate::index::superblock::SuperblockFile;
use crate::logs::keys::{KeyAppender, KeyLog};
use crate::logs::segments::{Begun, Bounds};
use crate::logs::values::ValueLog;
use crate::options::Options;
use crate::sync::Ranked;
use crate::sync::gate::Gate;
use crate::upkeep::Upkeep;
use crate::upkeep::state::Checkpointer;

/// The files that a superblock names, opened for writing.
pub(super) struct Files {
    pub(super) values: Arc<ValueLog>,
    pub(super) keys: Arc<KeyLog>,
    pub(super) loaded: Loaded,
}

impl Files {
    /// # Errors
    /// `Corrupt` if one is missing or does not match the superblock; `NewerFormat`; `Io`.
    pub(super) fn open(dir: &Arc<dyn Dir>, current: &Superblock, options: &Options) -> Result<Files> {
        let access = Access::Write;
        let values = ValueLog::open(Arc::clone(dir), current.store_id, access, options)?;
        values.dictionaries.pass_over(current.last_dictionary);
        let keys = KeyLog::open(Arc::clone(dir), access, current, Bounds::of_keys(options))?;
        let file = recover::open_index(&**dir, access, current)?;
        let seed = recover::index_seed(current);
        let owner = Owner::Us { filter_bytes_max: options.filter_memory_bytes };
        let loaded = load(file, seed, owner, current.index, current.epoch, &options.limits)?;
        Ok(Files { values: Arc::new(values), keys, loaded })
    }

    /// Compares the files with the segment table and the list of begun segments. From here on the
    /// list is kept up to date.
    ///
    /// # Errors
    /// `Corrupt` if a file is missing and that is not accepted; `Io`.
    pub(super) fn roster(
        &self,
        dir: &dyn Dir,
        superblock: &SuperblockFile,
        current: &Superblock,
        options: &Options,
    ) -> Result<Roster> {
        let mut segment_table = recover::segment_table(&self.loaded, current.index)?;
        let rolls = superblock.rolls(&current.store_id)?;
        let witness = Witness { superblock: current, segment_table: &segment_table, rolls: &rolls };
        let mut absent = witness.absent(&self.values, &self.keys);
        if !options.end_key_order {
            absent.extend(recover::absent_runs(dir, &segment_table)?);
        }
        recover::refuse(&absent, options.accept_loss)?;
        let unseen = recover::accept(&absent, &mut segment_table, current.tail.ordinal);
        // A missing run of keys says nothing about the superblock.
        let is_intact = absent.iter().all(|a| a.is_accepted || a.is_key_run());
        let has_lost = absent.iter().any(|a| !a.is_accepted);
        let is_news = recover::welcome(&absent, &mut segment_table, &self.values) || has_lost;
        self.values.segments.keep_list(Begun::new(rolls, Arc::clone(superblock.file())));
        recover::forget_removed(&self.values.segments, &mut segment_table);
        absent.extend(recover::remove_orphans(&self.values.segments, &segment_table, is_intact)?);
        self.keys.learn(segment_table.key_ends());
        self.values.dictionaries.named(segment_table.kept_dictionaries().collect());
        Ok(Roster { segment_table, absent, is_news, unseen })
    }
}

/// Segments and losses that a writer finds on opening.
pub(super) struct Roster {
    pub(super) segment_table: SegmentTable,
    /// Missing files.
    pub(super) absent: Vec<Absent>,
    /// Losses or returns that the store does not know yet: a checkpoint must note them.
    pub(super) is_news: bool,
    /// Greatest ordinal of a newly lost segment, counted from the last checkpoint's tail on.
    pub(super) unseen: Option<u64>,
}

/// All parts of a writing handle.
pub(super) struct Parts {
    /// The directory behind the gate.
    pub(super) dir: Arc<dyn Dir>,
    pub(super) gate: Arc<Gate>,
    pub(super) superblock: SuperblockFile,
    /// The last durable superblock.
    pub(super) current: Superblock,
    /// Epoch of the next superblock.
    pub(super) next_epoch: u64,
    pub(super) files: Files,
    pub(super) segment_table: SegmentTable,
    pub(super) absent: Vec<Absent>,
    /// Versions in the log after that superblock.
    pub(super) active: Arc<Memtable>,
    pub(super) log: Log,
    /// Entries with a lower sequence may already be in the index.
    pub(super) replayed_below: u64,
    pub(super) rules: Rules,
}

impl Parts {
    /// # Errors
    /// `Io`.
    pub(super) fn assemble(self, options: Options) -> Result<Upkeep> {
        let Parts { current, files, segment_table, .. } = self;
        let index = Arc::clone(&files.loaded.index);
        let writer = IndexWriter::new(files.loaded, current.index, self.next_epoch, options.limits);
        let keys = KeyAppender::new(Arc::clone(&files.keys), &options.limits)?;
        let order = options.key_order;
        let checkpointer =
            Checkpointer::new(writer, keys, segment_table.clone(), current.clone(), self.replayed_below, order);
        let log = Arc::new(Ranked::new(self.log));
        let reading = Arc::new(Reading::new(Opened {
            dir: self.dir,
            options,
            current,
            values: files.values,
            keys: files.keys,
            index,
            superblock: self.superblock,
            segment_table,
            active: self.active,
            absent: self.absent,
            end: End::Writer(Arc::clone(&log)),
        }));
        let writing = Writing::new(Arc::clone(&reading), log, self.gate);
        Ok(Upkeep::new(writing, reading, checkpointer, self.rules))
    }
}
