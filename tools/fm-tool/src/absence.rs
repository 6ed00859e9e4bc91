//! Files of a store that are absent: said when it is opened, and in the exit code of what was read from it.

use std::sync::atomic::{AtomicBool, Ordering};

use filemap_core::Store;

use crate::outcome::Outcome;
use crate::words;

/// Whether a store that was read lacks a file.
static MET: AtomicBool = AtomicBool::new(false);

/// Says which files of a store are absent. What is read from it is then not all.
pub fn of_read(store: &Store) {
    if say(store) {
        MET.store(true, Ordering::Relaxed);
    }
}

/// Says which files of a store are absent whose loss was accepted, so that it could be opened for writing.
pub fn of_written(store: &Store) {
    say(store);
}

/// Says which files of a store are absent that is read to say what a change would do: it ends as the change would, which is refused
/// for a loss that nobody has accepted.
pub fn of_plan(store: &Store) {
    let is_refused = store.absent().iter().any(|a| !a.is_accepted);
    if say(store) && is_refused {
        MET.store(true, Ordering::Relaxed);
    }
}

/// Segments that are absent were not searched: whoever says that nothing is left says it of the rest only.
pub fn of_search(store: &Store) {
    if store.absent().iter().any(|a| a.is_missed() && !a.is_dictionary()) {
        MET.store(true, Ordering::Relaxed);
    }
}

/// What it means for the verb.
pub fn outcome() -> Outcome {
    if MET.load(Ordering::Relaxed) { Outcome::Damaged } else { Outcome::Done }
}

fn say(store: &Store) -> bool {
    let absent = store.absent();
    let missed: Vec<_> = absent.iter().filter(|a| a.is_missed()).collect();
    for one in &missed {
        let (folder, file, why) = (store.path().display(), &one.file, &one.why);
        let lost = if one.is_dictionary() { "what was compressed with it" } else { "what it held" };
        words::complain(format_args!("{folder}: {file} is absent: {why}; {lost} cannot be read"));
    }
    !missed.is_empty()
}
