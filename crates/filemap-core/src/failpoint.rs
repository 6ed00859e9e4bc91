//! Fault injection for the simulator: named faults that the crash tests must catch, and steps of a checkpoint between which
//! they do other work. Compiled out without feature `sim`.

filemap_io::failpoints! {
    feature = "sim";
    /// A mistake that the engine makes on demand. Each breaks one of the crash rules.
    #[allow(missing_docs, reason = "the names say it, and the tests list them")]
    #[non_exhaustive]
    pub enum Fault {
        LogNotSyncedBeforeCheckpoint,
        KeysNotSynced,
        RolledKeysNotSynced,
        KeysRemovedEarly,
        StaleKeysBelieved,
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
        LocationsNotSeeded,
        OutputNotSynced,
        RemovalsDropped,
        StreamsNotPinned,
        VictimsRemovedEarly,
        DictionaryNotSynced,
        DictionaryNameNotSynced,
        DictionaryUsedUnnamed,
        DictionaryRemovedNamed,
        RemovalsForgotten,
        BackupNotHeld,
        BackupNotSynced,
        ExpiringReferredTo,
        StalePagesKept,
        FilterNotFilled,
        GateNotShut,
        ErasedWhileEntered,
        RemovalsErasedAtOnce,
        RetiredDictionariesNamed,
        LeftoversCounted,
        SegmentsNamedEarly,
        BegunSegmentsNotSynced,
        SparesRemovedEarly,
        EmptiedNotMarked,
    }
}

#[cfg(feature = "sim")]
mod on {
    use std::cell::RefCell;

    use super::Fault;
    use crate::sync::as_another_thread;

    type Work = Box<dyn FnMut()>;

    thread_local! {
        static STEP: RefCell<Option<Work>> = const { RefCell::new(None) };
    }

    impl Fault {
        /// All that lose something soon. `LocationsNotSeeded` does so only where a record lies in two places, `RemovalsDropped` only
        /// where an older version lies in a segment that is not worth compacting and the index is made anew from the value log,
        /// `StaleKeysBelieved` only for a reader that has not followed since a segment of the key log went, `StalePagesKept` only
        /// where a key is put again at the very place where a recovery has dropped it, `LeftoversCounted` only to lists; those of
        /// erasures (`ErasedWhileEntered`, `RemovalsErasedAtOnce`, `RetiredDictionariesNamed`, `DictionaryRemovedNamed`) and
        /// `DictionaryUsedUnnamed` too seldom. All of these have cases of
        /// their own.
        pub const ALL: [Fault; 44] = [
            Fault::LogNotSyncedBeforeCheckpoint,
            Fault::KeysNotSynced,
            Fault::RolledKeysNotSynced,
            Fault::KeysRemovedEarly,
            Fault::PagesPunchedEarly,
            Fault::IndexNotSynced,
            Fault::SuperblockNotSynced,
            Fault::SuperblockBeforeIndex,
            Fault::RetiredPagesReusedAtOnce,
            Fault::TailTakenAtTheEnd,
            Fault::TailWithTheFirstStage,
            Fault::NewSegmentNotSynced,
            Fault::NewSegmentNameNotSynced,
            Fault::RolledSegmentForgotten,
            Fault::SyncSkipped,
            Fault::RecoveredTailNotSynced,
            Fault::RecoveredSuperblockNotSynced,
            Fault::RecoveredNamesNotSynced,
            Fault::HolesNotFilled,
            Fault::TailNotCut,
            Fault::StoppedAtTheFirstHole,
            Fault::CacheTrusted,
            Fault::FailedSyncRetried,
            Fault::ReferencesTrusted,
            Fault::ChunksTrusted,
            Fault::TombstonesNotReplayed,
            Fault::TombstonesNotMerged,
            Fault::SequencesReused,
            Fault::CreatedWithoutSync,
            Fault::OutputNotSynced,
            Fault::VictimsRemovedEarly,
            Fault::StreamsNotPinned,
            Fault::DictionaryNotSynced,
            Fault::DictionaryNameNotSynced,
            Fault::RemovalsForgotten,
            Fault::BackupNotHeld,
            Fault::BackupNotSynced,
            Fault::ExpiringReferredTo,
            Fault::FilterNotFilled,
            Fault::GateNotShut,
            Fault::SegmentsNamedEarly,
            Fault::BegunSegmentsNotSynced,
            Fault::SparesRemovedEarly,
            Fault::EmptiedNotMarked,
        ];
    }

    /// A point of a checkpoint at which no lock of the append side is held.
    pub(crate) fn step() {
        // Taken out while it runs: what it does may come by here again.
        if let Some(mut work) = STEP.take() {
            as_another_thread(&mut work);
            STEP.with_borrow_mut(|slot| {
                slot.get_or_insert(work);
            });
        }
    }

    /// Calls `work` at each step of a checkpoint that runs on this thread.
    pub fn at_steps(work: Option<Work>) {
        STEP.set(work);
    }
}

#[cfg(not(feature = "sim"))]
mod off {
    /// Nothing.
    #[inline(always)]
    pub(crate) fn step() {}
}

#[cfg(not(feature = "sim"))]
pub(crate) use off::step;
#[cfg(feature = "sim")]
pub use on::at_steps;
#[cfg(feature = "sim")]
pub(crate) use on::step;
