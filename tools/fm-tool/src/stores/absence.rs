//! Missing files of a store: reported when it is opened, and in the exit code of the verb that
//! read it.

use std::sync::atomic::{AtomicBool, Ordering};

use filemap_core::Store;
use fm_cli::{Outcome, words};

/// True if a store that was read lacks a file.
static MET: AtomicBool = AtomicBool::new(false);

/// Reports missing files of a store opened to read: results are incomplete.
pub fn of_read(store: &Store) {
    if say(store) {
        MET.store(true, Ordering::Relaxed);
    }
}

/// Reports missing files of a store opened to write, whose loss was accepted.
pub fn of_written(store: &Store) {
    say(store);
}

/// Reports missing files of a store opened for a dry run. The outcome is damage if the change
/// itself would be refused because the loss was not accepted.
pub fn of_plan(store: &Store) {
    let is_refused = store.absent().iter().any(|a| !a.is_accepted);
    if say(store) && is_refused {
        MET.store(true, Ordering::Relaxed);
    }
}

/// Notes that missing segments were not searched: "nothing is left" covers the other files only.
pub fn of_search(store: &Store) {
    if store.absent().iter().any(|a| a.is_missed() && !a.is_dictionary()) {
        MET.store(true, Ordering::Relaxed);
    }
}

/// Outcome of a verb, damage if files of its store were missing.
pub fn outcome() -> Outcome {
    if MET.load(Ordering::Relaxed) { Outcome::Damaged } else { Outcome::Done }
}

fn say(store: &Store) -> bool {
    let absent = store.absent();
    let missed: Vec<_> = absent.iter().filter(|a| a.is_missed()).collect();
    for one in &missed {
        let (folder, file, why) = (store.path().display(), &one.file, &one.why);
        let lost = if one.is_dictionary() { "what was compressed with it" } else { "what it held" };
        words::complain(format_args!("{folder}: {file} is unusable: {why}; {lost} cannot be read"));
    }
    !missed.is_empty()
}
