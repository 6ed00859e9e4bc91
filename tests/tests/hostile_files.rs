//! Whole files of a store removed, emptied, swapped and rolled back, in every combination of two: each handle gives all that can
//! be read and names what is absent, nothing that was removed comes back unnoticed, and nothing that is not whole is called so.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use filemap_core::Store;
use filemap_core::sim;
use filemap_io::sim::SimDisk;
use filemap_tests::hostile::image::Image;
use filemap_tests::hostile::whole::{self, Harm, Past, Seen, Way};

/// What was done wrong, with what was met.
type Broken = BTreeMap<&'static str, String>;

/// A handle that only reads, and what is made of what it gives.
fn reading(past: &Past, image: &Image, broken: &mut Broken) {
    let store = match sim::open_read_only(whole::dir(image), whole::options()) {
        Ok(store) => store,
        Err(e) if whole::names_a_file(&e) => return,
        Err(e) => return drop(broken.insert("a refusal that names no file", format!("{e:?}"))),
    };
    let Seen { got, is_told, broken: seen } = whole::read(&store, &past.alive);
    broken.extend(seen);
    back(past, &got, "read", broken);
    let missing: Vec<_> = past.alive.difference(&got).collect();
    if !missing.is_empty() {
        made(&store, &missing.iter().map(|v| **v).collect(), broken);
    }
    for has in [&[][..], &[(90, 9)][..]] {
        match whole::copy(&store, has) {
            Ok((copied, told)) => {
                let is_less = !copied.is_superset(&past.alive);
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
    let _ = is_told;
}

/// What verification and a backup say of a store in which something is missed.
fn made(store: &Store, missing: &BTreeSet<whole::Named>, broken: &mut Broken) {
    match store.verify(&mut |_| {}) {
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

/// What was removed and is there again.
fn back(past: &Past, got: &BTreeSet<whole::Named>, who: &str, broken: &mut Broken) {
    let back: Vec<_> = got.difference(&past.alive).collect();
    if !back.is_empty() {
        broken.insert("a removed page is back", format!("{who}: {back:?}"));
    }
}

/// A handle that writes: it refuses, or all is there.
fn writing(past: &Past, image: &Image, broken: &mut Broken) {
    match sim::open(whole::dir(image), whole::options()) {
        Ok(store) => {
            let Seen { got, is_told, .. } = whole::read(&store, &past.alive);
            if is_told || got != past.alive {
                let missing: Vec<_> = past.alive.difference(&got).collect();
                let back: Vec<_> = got.difference(&past.alive).collect();
                broken.insert("opened for writing", format!("told {is_told}, missing {missing:?}, back {back:?}"));
            }
            sim::abandon(store);
        }
        Err(e) if whole::names_a_file(&e) => {}
        Err(e) => drop(broken.insert("a writer's refusal that names no file", format!("{e:?}"))),
    }
}

/// A repair, into another place or in place.
fn repair(past: &Past, image: &Image, in_place: bool, broken: &mut Broken) {
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
    if is_told {
        broken.insert("a repaired store is damaged", String::new());
    }
    let is_doubted = !report.unwitnessed.is_empty() || report.unexplained > 0;
    if !got.is_subset(&past.alive) && !is_doubted {
        broken.insert(
            "a repair brings back",
            format!("{:?}, {:?}", got.difference(&past.alive).collect::<Vec<_>>(), report.losses),
        );
    }
    if !got.is_superset(&past.alive) && report.is_complete() && !is_doubted {
        broken.insert("a repair that is silent", format!("{:?}", past.alive.difference(&got).collect::<Vec<_>>()));
    }
    sim::abandon(store);
}

/// All that is wrong with how a damaged store is met.
fn judge(past: &Past, image: &Image) -> Broken {
    let mut broken = Broken::new();
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        reading(past, image, &mut broken);
        writing(past, image, &mut broken);
        repair(past, image, false, &mut broken);
        repair(past, image, true, &mut broken);
    }));
    if panicked.is_err() {
        broken.insert("a panic", String::new());
    }
    broken
}

/// All pairs of harms, those of one file with itself being that harm alone.
fn cases(past: &Past) -> Vec<[Harm; 2]> {
    let harms = past.harms();
    let mut cases = Vec::new();
    for (nth, a) in harms.iter().enumerate() {
        cases.push([a.clone(), a.clone()]);
        cases.extend(harms[nth + 1..].iter().filter(|b| b.file != a.file).map(|b| [a.clone(), b.clone()]));
    }
    cases
}

#[test]
fn of_any_two_files_that_are_gone_empty_swapped_or_old_nothing_is_lost_in_silence() {
    let past = Past::make().unwrap();
    println!("{:?}", past.now.0.iter().map(|(n, b)| (n.clone(), b.len())).collect::<Vec<_>>());
    assert_eq!(judge(&past, &past.now), Broken::new(), "what nothing happened to");
    let cases = cases(&past);
    let (next, found) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let mut image = past.now.clone();
                    past.harm(&mut image, &case[0]);
                    if case[0] != case[1] {
                        past.harm(&mut image, &case[1]);
                    }
                    for (what, met) in judge(&past, &image) {
                        found.lock().unwrap().push((what, case.clone(), met));
                    }
                }
            });
        }
    });
    let mut found = found.into_inner().unwrap();
    found.sort();
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    for (what, case, met) in &found {
        *kinds.entry(what).or_default() += 1;
        let name = |h: &Harm| format!("{} {:?}", h.file, h.way);
        println!("{what} | {} + {} | {:.300}", name(&case[0]), name(&case[1]), met);
    }
    println!("{} cases {kinds:?}", cases.len());
    let _ = Way::Removed;
    assert!(found.is_empty());
}
