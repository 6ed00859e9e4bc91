//! Fault injection for the simulator: named bugs that the crash tests must catch, and steps of
//! long operations at which a test runs other work. Compiles to nothing without feature `sim`.

filemap_io::failpoints! {
    feature = "sim";
    /// A bug that the engine commits on demand. Each breaks one of the crash rules.
    ///
    /// ```
    /// # #[cfg(feature = "sim")]
    /// # {
    /// use filemap_core::sim::{Fault, plant};
    ///
    /// plant(Some(Fault::SyncSkipped));
    /// // What stores do in this thread now must fail the tests.
    /// plant(None);
    /// assert!(Fault::ALL.contains(&Fault::SyncSkipped));
    /// # }
    /// ```
    #[allow(missing_docs, reason = "the names say it, and the tests list them")]
    #[non_exhaustive]
    pub enum Fault {
        LogNotSyncedBeforeCheckpoint,
        KeysNotSynced,
        RolledKeysNotSynced,
        KeysRemovedEarly,
        PagesPunchedEarly,
        IndexNotSynced,
        SuperblockNotSynced,
        SuperblockBeforeIndex,
        RetiredPagesReusedAtOnce,
        TailTakenAtTheEnd,
        TailWithTheFirstStage,
        NewSegmentNotSynced,
        NewSegmentNameNotSynced,
        RolledSegmentForgotten,
        SyncSkipped,
        RecoveredTailNotSynced,
        RecoveredSuperblockNotSynced,
        RecoveredNamesNotSynced,
        HolesNotFilled,
        TailNotCut,
        StoppedAtTheFirstHole,
        CacheTrusted,
        FailedSyncRetried,
        ReferencesTrusted,
        ChunksTrusted,
        TombstonesNotReplayed,
        TombstonesNotMerged,
        SequencesReused,
        CreatedWithoutSync,
        OutputNotSynced,
        VictimsRemovedEarly,
        StreamsNotPinned,
        DictionaryNotSynced,
        DictionaryNameNotSynced,
        TombstonesForgotten,
        BackupNotHeld,
        BackupNotSynced,
        ExpiringReferredTo,
        FilterNotFilled,
        GateNotShut,
        SegmentsNamedEarly,
        BegunSegmentsNotSynced,
        SparesRemovedEarly,
        EmptiedNotMarked,
        RemovedKeysCounted,
        OutputsNotAwaited,
        OldPlacesBelieved,
        RunsDroppedUnsettled,
        RemovalsNotEntered,
        KeyRunNotSynced,
        KeyRunNamesNotSynced,
        KeyRunsRemovedEarly,
        OrderNotBehind,
        DropsNotDue,
    }
    ///
    /// Separate test cases cover the others:
    /// - `LocationsNotSeeded` loses something only if a record lies in two places.
    /// - `TombstonesDropped` only if an older version lies in a segment not worth compacting, and
    ///   the index is rebuilt from the value log.
    /// - `StaleKeysBelieved` only for a follower that has not followed since a segment of the key
    ///   log was removed.
    /// - `StalePagesKept` only if a key is put again at the very place where a recovery dropped
    ///   it.
    /// - `LeftoversCounted` only in lists.
    /// - `DroppedRemovalsNotTold`, `FollowedNotSynced`, `UnsyncedToldOf`, `SameLife`,
    ///   `MovedNotTold` and `OneRemovedNotReplayed` only when changes are asked for.
    /// - `OneRemovedForgotten` only in a repair without the index.
    /// - `ChangesByHash` only for keys that share 47 bits of their hash.
    /// - Those of erasures (`ErasedWhileEntered`, `TombstonesErasedAtOnce`,
    ///   `RetiredDictionariesNamed`, `DictionaryRemovedNamed`) and `DictionaryUsedUnnamed` are hit
    ///   too rarely.
    rare {
        StaleKeysBelieved,
        LocationsNotSeeded,
        TombstonesDropped,
        DictionaryUsedUnnamed,
        DictionaryRemovedNamed,
        StalePagesKept,
        ErasedWhileEntered,
        TombstonesErasedAtOnce,
        RetiredDictionariesNamed,
        LeftoversCounted,
        ChangesByHash,
        DroppedRemovalsNotTold,
        FollowedNotSynced,
        UnsyncedToldOf,
        SameLife,
        MovedNotTold,
        GoneBelieved,
        MovedOnceTold,
        OneRemovedNotReplayed,
        OneRemovedForgotten,
    }
}

#[cfg(feature = "sim")]
mod on {
    use std::cell::RefCell;

    use crate::sync::order;

    type Work = Box<dyn FnMut()>;

    thread_local! {
        static STEP: RefCell<Option<Work>> = const { RefCell::new(None) };
    }

    /// Runs work of another simulated thread, which does not hold this one's locks.
    pub fn as_another_thread(work: impl FnOnce()) {
        order::as_another_thread(work);
    }

    /// A step of a checkpoint, read, compaction or other operation: runs the test's work. No lock
    /// of the append side is held.
    pub(crate) fn step() {
        // Taken out while it runs: the work may itself reach a step.
        if let Some(mut work) = STEP.take() {
            order::as_another_thread(&mut work);
            STEP.with_borrow_mut(|slot| {
                slot.get_or_insert(work);
            });
        }
    }

    /// Calls `work` at each step of the operations on this thread.
    pub fn at_steps(work: Option<Work>) {
        STEP.set(work);
    }
}

#[cfg(not(feature = "sim"))]
mod off {
    /// Does nothing.
    #[inline(always)]
    pub(crate) fn step() {}
}

#[cfg(not(feature = "sim"))]
pub(crate) use off::step;
#[cfg(feature = "sim")]
pub(crate) use on::step;
#[cfg(feature = "sim")]
pub use on::{as_another_thread, at_steps};
