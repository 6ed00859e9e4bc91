//! Lists of pages that compaction overtakes: each page comes, once, whatever was moved meanwhile.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ops::ControlFlow;

use filemap_core::compact::CompactionGoal;
use filemap_core::sim::{self, Fault, Limits};
use filemap_core::{Options, Record, Result, Store};
use filemap_io::sim::Fault::Eio;
use filemap_io::sim::{Calls, Failure, Interrupt, SimDisk};

fn options() -> Options {
    crate::with_limits(Limits { slack_bytes: 0, ..Limits::default() })
}

/// Result of `list` while a fault is planted.
fn with<T>(fault: Fault, list: impl FnOnce() -> T) -> T {
    sim::plant(Some(fault));
    let listed = list();
    sim::plant(None);
    listed
}

thread_local! {
    /// A writer that is to compact, its disk, and the calls after which one of its reader fails.
    static WRITER: RefCell<Option<(Store, SimDisk, u64)>> = const { RefCell::new(None) };
}

fn compact() {
    let Some((writer, disk, calls)) = WRITER.take() else { return };
    sim::as_another_thread(|| {
        writer.compact().unwrap();
        sim::abandon(writer);
    });
    let at = disk.calls() + 1 + calls;
    disk.fail(Some(Failure { at, fault: Eio, only_syncs: false, forever: false }));
}

/// Number of pages, of 20, that a reader lists when it is behind its writer, which has removed
/// others and compacts at call `call` of the reader's disk; of the calls after it one fails.
/// `None` if there are fewer calls.
fn listed_when_overtaken(call: u64, failing: u64) -> Option<usize> {
    let disk = SimDisk::new(3);
    let store = sim::create(disk.dir(), options()).unwrap();
    for i in 0..40 {
        store.put(&Record::new(format!("{i}").as_bytes(), &[i; 300]).time(5)).unwrap();
    }
    store.checkpoint().unwrap();
    let interrupt = Interrupt::never(Calls::All, compact);
    let reader = sim::open_read_only(interrupt.over(disk.dir()), options()).unwrap();
    (0..20).for_each(|i| assert!(store.remove(format!("{i}").as_bytes()).unwrap()));
    store.checkpoint().unwrap();
    WRITER.set(Some((store, disk.clone(), failing)));
    interrupt.after(call);
    let list = || reader.pages().map(|page| page.map(|(key, _)| key)).collect::<Result<BTreeSet<Vec<u8>>>>();
    let mut pages = list();
    if disk.failed() > 0 && pages.is_err() {
        pages = list();
    }
    interrupt.disarm();
    sim::abandon(reader);
    if let Some((store, ..)) = WRITER.take() {
        sim::abandon(store);
        return None;
    }
    let pages = pages.unwrap();
    Some((20..40).filter(|i| pages.contains(format!("{i}").as_bytes())).count())
}

/// The fewest pages listed, whatever call is overtaken; and the calls. The one that fails comes
/// between the list of the folder and the superblock for some of them.
fn fewest() -> (usize, usize) {
    let listed = (0..).map_while(|call| listed_when_overtaken(call, 11));
    listed.fold((20, 0), |(fewest, calls), pages| (fewest.min(pages), calls + 1))
}

#[test]
fn a_reader_lists_every_page_at_whatever_call_its_writer_compacts() {
    let (pages, calls) = fewest();
    assert!(pages == 20 && calls > 100, "{pages} pages of 20, {calls} calls");
    assert!(with(Fault::OutputsNotAwaited, fewest).0 < 20);
}

/// The pages listed from a store in which compaction has moved the chunks of a body, and perhaps
/// not the record that first listed them: how many were damaged.
fn damaged_after_chunks_moved(filler: usize, calls: usize) -> usize {
    let disk = SimDisk::new(3);
    let store = sim::create(disk.dir(), options()).unwrap();
    let put = |key: &str, time, bytes| {
        store.put(&Record::new(key.as_bytes(), &vec![7; bytes]).time(time)).unwrap();
    };
    // More versions than are looked up each time.
    (0..10).for_each(|time| put("many", time, 9));
    put("gone", 0, 400);
    put("filler", 0, filler);
    put("many", 10, 2000);
    (0..20).for_each(|i| put(&format!("{i}"), 0, 200));
    store.remove(b"gone").unwrap();
    store.checkpoint().unwrap();
    let mut left = calls;
    let progress = &mut |_| {
        left = left.saturating_sub(1);
        if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    store.compact_with(CompactionGoal::NoGarbage, progress).unwrap();
    let damaged = store.pages().filter(Result::is_err).count();
    let pages = store.pages().filter(Result::is_ok).count();
    assert!(pages == 22 || damaged > 0, "{pages} pages");
    sim::abandon(store);
    damaged
}

#[test]
fn a_list_of_chunks_that_compaction_left_behind_is_not_read() {
    let most = || (0..32).flat_map(|n| (1..4).map(move |c| damaged_after_chunks_moved(64 * n, c))).max();
    assert_eq!(most(), Some(0));
    assert!(with(Fault::OldPlacesBelieved, most) > Some(0));
}
