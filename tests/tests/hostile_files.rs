//! Whole files of a store removed, emptied, swapped and rolled back, in every combination of two.
//! Each handle gives all that can be read and names what is missing; nothing removed comes back
//! unnoticed, and nothing incomplete is called whole.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use filemap_core::Store;
use filemap_core::sim;
use filemap_io::sim::SimDisk;
use filemap_tests::hostile::image::Image;
use filemap_tests::hostile::whole::{self, Ending, Harm, Named, Past, Seen, Way};

/// Readers wait a while for a superblock or an index that may be being written: many cases wait at
/// once.
const THREADS: usize = 16;

/// A removed page is read again, and files are named as missing or damaged.
const BACK_IN_A_TOLD_READ: &str = "a removed page is back while files are named";
/// A repair brings a removed page, and says that removals are lost.
const BACK_IN_A_TOLD_REPAIR: &str = "a repair brings a removed page and says that removals are lost";

/// Broken promises, each with the case.
type Broken = BTreeMap<&'static str, String>;

/// A handle that only reads, and what is made of what it gives; which versions it gave without a
/// word, if there was none.
fn reading(owed: &BTreeSet<Named>, image: &Image, broken: &mut Broken) -> Option<BTreeSet<Named>> {
    let store = match sim::open_read_only(whole::dir(image), whole::options()) {
        Ok(store) => store,
        Err(e) => {
            if !whole::names_a_file(&e) {
                broken.insert("a refusal that names no file", format!("{e:?}"));
            }
            return None;
        }
    };
    let Seen { got, is_told, broken: seen } = whole::read(&store, owed);
    broken.extend(seen);
    back(owed, &got, if is_told { BACK_IN_A_TOLD_READ } else { "a removed page is back" }, broken);
    let missing: Vec<_> = owed.difference(&got).collect();
    if !missing.is_empty() {
        made(&store, &missing.iter().map(|v| **v).collect(), broken);
    }
    for has in [&[][..], &[(90, 9)][..]] {
        match whole::copy(&store, has) {
            Ok((copied, told)) => {
                let is_less = !copied.is_superset(owed);
                if is_less && !told {
                    broken.insert("a copy that is silent", format!("{missing:?}"));
                }
                if !copied.is_superset(&got) {
                    broken.insert(
                        "a copy of less than can be read",
                        format!("{:?}", got.difference(&copied).collect::<Vec<_>>()),
                    );
                }
            }
            Err(e) if whole::names_a_file(&e) => {
                broken.insert("a copy that gives up", format!("{e:?}"));
            }
            Err(e) => drop(broken.insert("a copy fails", format!("{e:?}"))),
        }
    }
    (!is_told).then_some(got)
}

/// Checks the reports of verification and backup about a store with missing files.
fn made(store: &Store, missing: &BTreeSet<Named>, broken: &mut Broken) {
    match store.verify() {
        Ok(report) if report.problems.is_empty() => {
            broken.insert("a verification that is silent", format!("{missing:?}"));
        }
        Ok(_) => {}
        Err(e) if whole::names_a_file(&e) => {}
        Err(e) => drop(broken.insert("a verification fails", format!("{e:?}"))),
    }
    if sim::back_up(store, &*SimDisk::new(3).dir()).is_ok() {
        broken.insert("a backup that is silent", format!("{missing:?}"));
    }
}

/// Versions that were removed and are present again.
fn back(owed: &BTreeSet<Named>, got: &BTreeSet<Named>, who: &'static str, broken: &mut Broken) {
    let back: Vec<_> = got.difference(owed).collect();
    if !back.is_empty() {
        broken.insert(who, format!("{back:?}"));
    }
}

/// A handle that writes: it refuses, or all is there.
fn writing(owed: &BTreeSet<Named>, image: &Image, broken: &mut Broken) {
    match sim::open(whole::dir(image), whole::options()) {
        Ok(store) => {
            let Seen { got, is_told, .. } = whole::read(&store, owed);
            if is_told || got != *owed {
                let missing: Vec<_> = owed.difference(&got).collect();
                let back: Vec<_> = got.difference(owed).collect();
                broken.insert("opened for writing", format!("told {is_told}, missing {missing:?}, back {back:?}"));
            }
            sim::abandon(store);
        }
        Err(e) if whole::names_a_file(&e) => {}
        Err(e) => drop(broken.insert("a writer's refusal that names no file", format!("{e:?}"))),
    }
}

/// A repair, into another place or in place.
fn repair(owed: &BTreeSet<Named>, image: &Image, in_place: bool, broken: &mut Broken) {
    let (from, to) = (whole::dir(image), SimDisk::new(4));
    let target = (!in_place).then(|| to.dir());
    let result = sim::repair(from.clone(), target.clone(), &whole::options());
    let report = match result {
        Ok(report) => report,
        Err(e) if whole::names_a_file(&e) => return drop(broken.insert("a repair refuses", format!("{e:?}"))),
        Err(e) => return drop(broken.insert("a repair fails", format!("{e:?}"))),
    };
    let store = match sim::open(target.unwrap_or(from), whole::options()) {
        Ok(store) => store,
        Err(e) => return drop(broken.insert("a repaired store does not open", format!("{e:?}"))),
    };
    let Seen { got, is_told, broken: seen } = whole::read(&store, &BTreeSet::new());
    broken.extend(seen);
    // What needs a dictionary stays, for when somebody has a copy of that.
    let lacks_dictionary = report.losses.iter().any(|l| l.file.ends_with(".zdict"));
    if is_told && !lacks_dictionary {
        broken.insert("a repaired store is damaged", String::new());
    }
    let is_doubted = !report.unwitnessed.is_empty();
    if !got.is_subset(owed) && !is_doubted {
        let is_named = report.losses.iter().any(|l| l.what.contains("tombstones"));
        broken.insert(
            if is_named { BACK_IN_A_TOLD_REPAIR } else { "a repair brings back" },
            format!("{:?}, {:?}", got.difference(owed).collect::<Vec<_>>(), report.losses),
        );
    }
    if !got.is_superset(owed) && report.is_complete() && !is_doubted {
        broken.insert("a repair that is silent", format!("{:?}", owed.difference(&got).collect::<Vec<_>>()));
    }
    sim::abandon(store);
}

/// The broken promises of a damaged store, and the versions that a reader got without a
/// warning.
fn judge(owed: &BTreeSet<Named>, image: &Image) -> (Broken, Option<BTreeSet<Named>>) {
    let (mut broken, mut silent) = (Broken::new(), None);
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        silent = reading(owed, image, &mut broken);
        writing(owed, image, &mut broken);
        repair(owed, image, false, &mut broken);
        repair(owed, image, true, &mut broken);
    }));
    if panicked.is_err() {
        broken.insert("a panic", String::new());
    }
    (broken, silent)
}

/// All pairs of harms to different files, and each harm alone.
fn cases(past: &Past) -> Vec<Vec<Harm>> {
    let harms = past.harms();
    let mut cases = Vec::new();
    for (nth, a) in harms.iter().enumerate() {
        cases.push(vec![a.clone()]);
        cases.extend(harms[nth + 1..].iter().filter(|b| b.file != a.file).map(|b| vec![a.clone(), b.clone()]));
    }
    cases
}

/// Findings of all cases.
struct Found {
    cases: usize,
    /// Broken promises, with the case and the finding.
    broken: Vec<(&'static str, Vec<Harm>, String)>,
    /// Those in which less or more than there is was given without a word.
    silent: Vec<Vec<Harm>>,
}

/// Judges every case.
fn every_pair(past: &Past) -> Found {
    assert_eq!(judge(&past.alive, &past.now), (Broken::new(), Some(past.alive.clone())), "nothing has happened");
    let cases = cases(past);
    let (next, broken, silent) = (AtomicUsize::new(0), Mutex::new(Vec::new()), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let mut image = past.now.clone();
                    case.iter().for_each(|harm| past.harm(&mut image, harm));
                    let (met, given) = judge(past.owed(case), &image);
                    broken.lock().unwrap().extend(met.into_iter().map(|(what, met)| (what, case.clone(), met)));
                    if given.is_some_and(|given| given != past.alive) {
                        silent.lock().unwrap().push(case.clone());
                    }
                }
            });
        }
    });
    Found { cases: cases.len(), broken: broken.into_inner().unwrap(), silent: silent.into_inner().unwrap() }
}

/// Nothing that was closed after a compaction can be rolled back two files at a time so that
/// nothing can tell: the superblock names the segments and their lengths, and an older one misses
/// the segments that compaction gave back since.
#[test]
fn of_any_two_files_of_a_closed_store_nothing_is_lost_in_silence() {
    let found = every_pair(&Past::make(Ending::Closed).unwrap());
    assert_eq!(found.cases, 932);
    assert!(found.broken.is_empty(), "{:#?}", found.broken);
    assert_eq!(found.silent, [] as [Vec<Harm>; 0]);
}

/// The superblock is that of the first checkpoint, which names no segment after the second, and
/// with it went one of these files.
fn is_with_the_first_superblock(case: &[Harm], others: &[(&str, Way)]) -> bool {
    let is = |name: &str, way: Way| case.iter().any(|h| h.file == name && h.way == way);
    is("SUPERBLOCK", Way::RolledBack(0)) && others.iter().any(|(name, way)| is(name, *way))
}

/// Of what was put after the last checkpoint the segment itself is the only witness, and of
/// segments that were begun after it the superblock. So these are earlier states, as after a power
/// failure, when nothing shows that there was more: the last segment as it was at that
/// checkpoint; and a superblock from before the last segment was begun, without that segment. A
/// removal that only the last segment tells of is undone with it, but never unless files are
/// named.
#[test]
fn of_any_two_files_of_a_killed_store_nothing_is_lost_in_silence_but_the_tail_of_the_log() {
    const CONSISTENT: [(&str, Way); 2] = [("value3.dat", Way::Removed), ("value3.dat", Way::Emptied)];
    let past = Past::make(Ending::Killed).unwrap();
    assert_eq!(past.tail.as_deref(), Some("value3.dat"));
    let Found { cases, mut broken, silent } = every_pair(&past);
    assert_eq!(cases, 585);
    let is_of_tail = |h: &Harm| h.file == "value3.dat" || (h.file == "value2.dat" && h.way == Way::Swapped);
    broken.retain(|b| !is_with_the_first_superblock(&b.1, &CONSISTENT));
    let is_told = |what: &str| [BACK_IN_A_TOLD_READ, BACK_IN_A_TOLD_REPAIR].contains(&what);
    broken.retain(|(what, case, _)| !is_told(what) || !case.iter().any(is_of_tail));
    assert!(broken.is_empty(), "{broken:#?}");
    assert!(
        silent.iter().all(|c| past.owed(c) != &past.alive || is_with_the_first_superblock(c, &CONSISTENT)),
        "{silent:#?}"
    );
    assert_eq!(silent.len(), 1, "{silent:?}");
}
