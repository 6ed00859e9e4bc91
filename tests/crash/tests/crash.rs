//! A bounded run of each harness for `cargo test`; the gate and the soak run more of the same with
//! the command.

use filemap_core::sim::Fault;
use filemap_crash::{Count, Violation, each, failing, hunt, small};

/// As many as a small machine has cores.
const THREADS: usize = 2;

#[test]
fn random_strings_over_three_generations_of_crashes_lose_nothing() {
    // Most has been removed and moved at a string's end: some are run to theirs.
    let most_states = |seed| if seed % 10 == 0 { u64::MAX } else { 500 };
    let count = each(THREADS, 1..1001, 51_000, |seed| hunt::begin(seed, most_states(seed)));
    let count = count.unwrap_or_else(|violation| panic!("{violation}"));
    assert!(count.states > 50_000 && count.in_recovery > 1000 && count.failures > 50, "{count:?}");
}

/// The next segment was created ahead, and a failed sync had left its header in the cache only:
/// this run refused the store.
#[test]
fn after_a_lost_tail_the_log_goes_on_in_no_segment_without_a_record() {
    assert!(hunt::run(3163, None).is_ok());
}

/// A reader had seen a superblock whose sync failed. The recovery gave its epoch to another one,
/// and the reader kept the lost one's runs of keys in order.
#[test]
fn an_epoch_that_readers_have_seen_is_given_to_no_other_superblock() {
    hunt::run(40_005, None).unwrap_or_else(|violation| panic!("{}", violation.what));
}

/// The power failed while a run of keys was created: its blocks had what was on the device before,
/// text of a key that an erasure was removing. Nobody took the file for the store's.
#[test]
fn a_run_of_keys_that_was_being_created_goes_whatever_its_blocks_have() {
    hunt::run(500_052, None).unwrap_or_else(|violation| panic!("{}", violation.what));
}

/// A read of a run failed when it was asked after a crash: the order ended permanently.
#[test]
fn a_read_that_fails_ends_no_order_of_keys() {
    hunt::run(31_040, None).unwrap_or_else(|violation| panic!("{}", violation.what));
}

#[test]
fn a_segment_whose_records_refer_to_a_lost_one_stays() {
    for seed in [113_069, 80_117] {
        hunt::run(seed, None).unwrap_or_else(|violation| panic!("{}", violation.what));
    }
}

#[test]
fn every_string_of_up_to_two_operations_loses_nothing() {
    let mut count = Count::default();
    for string in (0..small::strings()).map(small::string).take_while(|s| s.len() < 3) {
        count.add(small::run(&string).unwrap_or_else(|violation| panic!("{violation}")));
    }
    assert_eq!(count.runs, 72);
    assert!(count.states > 1500, "{count:?}");
}

#[test]
fn every_call_may_fail() {
    let mut count = Count::default();
    for seed in [5, 11, 12] {
        count.add(failing::run(seed, &failing::WAYS).unwrap_or_else(|violation| panic!("{violation}")));
    }
    assert!(count.failures > 200, "{count:?}");
}

/// The seeds by which faults that show late were caught: the minutes before them are the soak's,
/// and those of `filemap-crash faults`. Where another engine makes other runs of them, a test goes
/// on with the next seeds.
const LATE: [(Fault, u64); 14] = [
    (Fault::RecoveredNamesNotSynced, 2),
    (Fault::ChunksTrusted, 2),
    (Fault::BackupNotHeld, 5),
    (Fault::BackupNotSynced, 2),
    (Fault::OrderNotBehind, 2),
    (Fault::FailedSyncRetried, 3),
    (Fault::GateNotShut, 4),
    (Fault::SparesRemovedEarly, 4),
    (Fault::CreatedWithoutSync, 5),
    (Fault::ReferencesTrusted, 6),
    (Fault::RunsDroppedUnsettled, 6),
    (Fault::RemovalsNotEntered, 6),
    (Fault::DropsNotDue, 10),
    (Fault::RecoveredSuperblockNotSynced, 7),
];

#[test]
fn each_planted_fault_is_caught_within_forty_thousand_states() {
    let catch = |number| {
        let fault = Fault::ALL[number as usize];
        let violation = || Violation {
            what: format!("{fault:?} is not caught"),
            repeat: format!("cargo run --release -p filemap-crash -- faults --only {fault:?}"),
        };
        let first_seed = LATE.iter().find(|(late, _)| *late == fault).map_or(1, |(_, seed)| *seed);
        hunt::catch(fault, first_seed, 40_000).map(|_| Count::default()).ok_or_else(violation)
    };
    let caught = each(THREADS, 0..Fault::ALL.len() as u64, u64::MAX, catch);
    caught.unwrap_or_else(|violation| panic!("{violation}"));
    assert!(Fault::ALL.len() >= 10);
}

#[test]
fn a_seed_repeats_a_run() {
    for seed in 20..30 {
        assert_eq!(hunt::begin(seed, 300), hunt::begin(seed, 300));
    }
    let caught = |_| hunt::catch(Fault::IndexNotSynced, 1, 10_000).expect("it is caught");
    assert_eq!(caught(1), caught(2));
}
