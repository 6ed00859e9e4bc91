//! From the opened files of a store, and what a recovery or a repair has found out about its log, to what the threads of a handle
//! that writes share.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use filemap_io::{Access, Dir};

use crate::accounts::Accounts;
use crate::error::Result;
use crate::format::rules::Rules;
use crate::format::superblock::Superblock;
use crate::gate::Gate;
use crate::index::{IndexWriter, Loaded, Owner, load};
use crate::keys::{KeyAppender, KeyLog};
use crate::options::Options;
use crate::primitive::{ArcSwap, AtomicBool, AtomicI64, AtomicU64, Mutex};
use crate::recent::Recent;
use crate::recover::{self, Absent, Witness};
use crate::segments::{Begun, Bounds, Segments};
use crate::state::{Checkpointer, Compactor, FreeSpace, Log, Shared, Tables, Training, WriteSide};
use crate::stats::Counters;
use crate::superblock::SuperblockFile;
use crate::sync::{Bell, GroupSync, Solo};
use crate::values::VALUES;

/// The files that a superblock names, opened to be written.
pub(super) struct Files {
    pub(super) segments: Arc<Segments>,
    pub(super) keys: Arc<KeyLog>,
    pub(super) loaded: Loaded,
}

impl Files {
    /// # Errors
    /// `Corrupt` when one is missing or not what the superblock says; `NewerFormat`; `Io`.
    pub(super) fn open(dir: &Arc<dyn Dir>, current: &Superblock, options: &Options) -> Result<Files> {
        let access = Access::Write;
        let bounds = Bounds::of_values(options);
        let segments = Arc::new(Segments::open(&VALUES, Arc::clone(dir), current.store_id, access, bounds)?);
        segments.dictionaries.set_memory(options.dictionary_memory_bytes);
        segments.dictionaries.pass_over(current.last_dictionary);
        let keys = KeyLog::open(Arc::clone(dir), access, current, Bounds::of_keys(options))?;
        let file = recover::open_index(&**dir, access, current)?;
        let seed = recover::index_seed(current);
        let owner = Owner::Us { filter_bytes_max: options.filter_memory_bytes };
        let loaded = load(file, seed, owner, current.index, current.epoch, &options.limits)?;
        Ok(Files { segments, keys, loaded })
    }

    /// What there is, when that is all which the segment table and the list of begun segments name, or what is not is accepted. From
    /// here on the list is kept.
    ///
    /// # Errors
    /// `Corrupt`; `Io`.
    pub(super) fn account(
        &self,
        superblock: &SuperblockFile,
        current: &Superblock,
        accepts_loss: bool,
    ) -> Result<Roster> {
        let mut accounts = recover::accounts(&self.loaded, current.index)?;
        let rolls = superblock.rolls(&current.store_id)?;
        let witness = Witness { superblock: current, accounts: &accounts, rolls: &rolls };
        let mut absent = witness.absent(&self.segments, &self.keys);
        recover::refuse(&absent, accepts_loss)?;
        let unseen = recover::accept(&absent, &mut accounts, current.tail.ordinal);
        let is_intact = absent.iter().all(|a| a.is_accepted);
        let is_news = recover::welcome(&absent, &mut accounts, &self.segments) || !is_intact;
        self.segments.keep_list(Begun::new(rolls, Arc::clone(superblock.file())));
        recover::forget_removed(&self.segments, &mut accounts);
        absent.extend(recover::remove_orphans(&self.segments, &accounts, is_intact)?);
        self.keys.learn(accounts.key_ends());
        self.segments.dictionaries.named(accounts.kept_dictionaries().collect());
        Ok(Roster { accounts, absent, is_news, unseen })
    }
}

/// Which segments a writer finds.
pub(super) struct Roster {
    /// The segment table.
    pub(super) accounts: Accounts,
    /// What is not there.
    pub(super) absent: Vec<Absent>,
    /// Whether that is news, which a checkpoint must note.
    pub(super) is_news: bool,
    /// The greatest ordinal of what is lost behind the tail of the last checkpoint, of which that is news.
    pub(super) unseen: Option<u64>,
}

/// All that a handle which writes is made of.
pub(super) struct Parts {
    /// Behind the gate.
    pub(super) dir: Arc<dyn Dir>,
    pub(super) gate: Arc<Gate>,
    pub(super) superblock: SuperblockFile,
    /// The last durable superblock.
    pub(super) current: Superblock,
    /// The epoch of the one that follows it.
    pub(super) next_epoch: u64,
    pub(super) files: Files,
    pub(super) accounts: Accounts,
    pub(super) absent: Vec<Absent>,
    /// What was met of the log since that superblock.
    pub(super) active: Arc<Recent>,
    pub(super) log: Log,
    /// Entries with a lower sequence may be in the index already.
    pub(super) replayed_below: u64,
    pub(super) rules: Rules,
}

impl Parts {
    /// # Errors
    /// `Io`.
    pub(super) fn assemble(self, options: Options) -> Result<Shared> {
        let Parts { dir, superblock, current, files, accounts, active, .. } = self;
        let index = Arc::clone(&files.loaded.index);
        let writer = IndexWriter::new(files.loaded, current.index, self.next_epoch, options.limits);
        let keys = KeyAppender::new(Arc::clone(&files.keys), &options.limits)?;
        let checkpointer = Checkpointer::new(writer, keys, accounts.clone(), current.clone(), self.replayed_below);
        Ok(Shared {
            dir,
            segments: files.segments,
            keys: files.keys,
            index,
            superblock,
            latest: ArcSwap::from_pointee(current.clone()),
            accounts: ArcSwap::from_pointee(accounts),
            tables: ArcSwap::from_pointee(Tables { active, frozen: None }),
            indexed_time_ms: AtomicI64::new(current.max_time_ms),
            expiring_ms: AtomicI64::new(i64::MIN),
            absent: ArcSwap::from_pointee(self.absent),
            counters: Counters::default(),
            writer: Some(write_side(self.log, checkpointer, self.gate, self.rules)),
            follower: None,
            closed: AtomicBool::new(false),
            birth: current,
            options,
        })
    }
}

/// What only the writer has, as it is when a store was just opened.
fn write_side(log: Log, checkpointer: Checkpointer, gate: Arc<Gate>, rules: Rules) -> WriteSide {
    WriteSide {
        log: Mutex::new(log),
        compacting: Solo::default(),
        compactor: Mutex::new(Compactor::default()),
        checkpointer: Mutex::new(checkpointer),
        group: GroupSync::default(),
        poison: Arc::clone(&gate.poison),
        gate,
        sync_bell: Bell::default(),
        checkpoint_bell: Bell::default(),
        compact_bell: Bell::default(),
        looked_at: AtomicU64::new(0),
        space_limit: AtomicU64::new(u64::MAX),
        training: Training::default(),
        checkpoint_due: AtomicBool::new(false),
        slow_freezes: AtomicU64::new(0),
        free_space: FreeSpace::default(),
        kept_keys: Mutex::default(),
        rules: Mutex::new(rules),
        admission: ArcSwapOption::empty(),
    }
}
