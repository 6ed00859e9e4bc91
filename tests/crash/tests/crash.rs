//! A bounded run of each kind, for every `cargo test`; CI and the soak run more of the same with the package's command.

use filemap_core::sim::Fault;
use filemap_crash::{Count, failing, hunt, small};

#[test]
fn random_strings_over_three_generations_of_crashes_lose_nothing() {
    let mut count = Count::default();
    for seed in 1..101 {
        count.add(hunt::run(seed, None).unwrap_or_else(|violation| panic!("{violation}")));
    }
    assert!(count.states > 50_000 && count.in_recovery > 1000 && count.failures > 50, "{count:?}");
}

#[test]
fn every_string_of_up_to_two_operations_loses_nothing() {
    let mut count = Count::default();
    for string in (0..small::strings()).map(small::string).take_while(|s| s.len() < 3) {
        count.add(small::run(&string).unwrap_or_else(|violation| panic!("{violation}")));
    }
    assert_eq!(count.runs, 72);
    assert!(count.states > 2000, "{count:?}");
}

#[test]
fn every_call_may_fail() {
    let mut count = Count::default();
    for seed in [2, 5] {
        count.add(failing::run(seed).unwrap_or_else(|violation| panic!("{violation}")));
    }
    assert!(count.failures > 200, "{count:?}");
}

#[test]
fn each_planted_fault_is_caught_within_forty_thousand_states() {
    let missed: Vec<Fault> = Fault::ALL.into_iter().filter(|&f| hunt::catch(f, 40_000).is_none()).collect();
    assert!(missed.is_empty(), "{missed:?}");
    assert!(Fault::ALL.len() >= 10);
}

#[test]
fn a_seed_repeats_a_run() {
    for seed in 20..30 {
        assert_eq!(hunt::run(seed, None), hunt::run(seed, None));
    }
    let caught = |_| hunt::catch(Fault::IndexNotSynced, 10_000).expect("it is caught");
    assert_eq!(caught(1), caught(2));
}
