//! Files that are kept with a shard commit together with its pages. Owners open and leave a store
//! over a simulated object storage with faults, each with its own folder, and are cut off during
//! commits. The next owner must find one state: its files, and all pages that those name.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use filemap::access::PutRule;
use filemap::{Lookup, Page, PageRead, PageWrite};
use filemap_cloud::object_store::memory::InMemory;
use filemap_cloud::{Change, CloudOptions, CloudStore, Fault, KeptFile, Mode, open_on, repair_on};
use filemap_io::{Access, Dir, OsDir};

use crate::bucket::{Faults, Rule, Simulated};
use crate::mend::Objects;

const SEEDS: u64 = 24;
const SEEDS_TO_CATCH: u64 = 400;
const AT_ONCE: u64 = 12;
const OWNERS: u64 = 5;
const PAGES: usize = 3;
const FAULTS: Faults = Faults { fail: 15, lose: 15, delay: 300 };
const NONE: Faults = Faults { fail: 0, lose: 0, delay: 0 };

fn page(nth: usize) -> Page {
    let body = format!("{nth} ").repeat(500 + nth);
    Page::new(format!("http://{}.example/{nth}", nth % 3), 1_700_000_000_000 + nth as i64, 200, body)
}

fn options(seed: u64, fault: Option<Fault>) -> CloudOptions {
    let options = CloudOptions::new().segment_bytes(64 << 10).max_retries(6);
    let options = options.grace(Duration::from_secs(seed % 2 * 3600));
    fault.iter().fold(options, |options, fault| options.fault(*fault))
}

fn opened(end: &Arc<Simulated>, mode: Mode, options: &CloudOptions) -> filemap_cloud::Result<CloudStore> {
    open_on(Arc::clone(end) as _, "a", "the simulation", mode, options)
}

/// A file that grows by a line a state, and now and then starts over.
fn journal(state: usize) -> (String, String) {
    let from = state - state % 4;
    (format!("deep/journal.{from}"), (from..=state).map(|nth| format!("line {nth}\n")).collect())
}

/// A file that changes in its middle.
fn table(state: usize) -> Vec<u8> {
    let mut bytes = vec![7; 9_000];
    bytes[state * 10 % 9_000] = state as u8;
    bytes
}

/// The files of a state, as they are to be kept.
fn files(state: usize) -> Vec<(String, Vec<u8>)> {
    let (name, lines) = journal(state);
    let state_file = ("state".to_owned(), state.to_string().into_bytes());
    vec![(name, lines.into_bytes()), state_file, ("table".to_owned(), table(state)), ("same".to_owned(), vec![1; 77])]
}

fn sync(store: &CloudStore, state: usize) -> filemap::Result<()> {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = OsDir::open(folder.path()).expect("a folder");
    let files = files(state);
    let written = files.iter().enumerate().map(|(nth, (name, bytes))| {
        let file = dir.open(&nth.to_string(), Access::Create).expect("new");
        file.write_at(bytes, 0).expect("written");
        (name.clone(), file)
    });
    let written: Vec<_> = written.collect();
    let change = |name: &str| match name {
        "same" => Change::Same,
        name if name.starts_with("deep/") => Change::Appended,
        _ => Change::Replaced,
    };
    let kept: Vec<_> =
        written.iter().map(|(name, file)| KeptFile { name, file: &**file, change: change(name) }).collect();
    store.sync_with(&kept)
}

fn retried<T>(what: &str, read: impl Fn() -> filemap::Result<T>) -> Result<T, String> {
    let mut last = String::new();
    for _ in 0..20 {
        match read() {
            Ok(found) => return Ok(found),
            Err(error) => last = error.to_string(),
        }
    }
    Err(format!("{what}: {last}"))
}

/// Returns the state of a store, if its files and pages are those of one state.
fn state_of(store: &CloudStore) -> Result<Option<usize>, String> {
    let names = retried("kept", || store.kept())?;
    let mut found = Vec::new();
    for (name, length) in &names {
        let bytes = retried(name, || {
            let mut bytes = Vec::new();
            store.read_kept(name, &mut |part| {
                bytes.extend_from_slice(part);
                Ok(())
            })?;
            Ok(bytes)
        })?;
        if bytes.len() as u64 != *length {
            return Err(format!("{name}: {} bytes, not {length}", bytes.len()));
        }
        found.push((name.clone(), bytes));
    }
    let Some((_, state)) = found.iter().find(|(name, _)| name == "state") else {
        return if found.is_empty() { Ok(None) } else { Err("files without a state".to_owned()) };
    };
    let state: usize = String::from_utf8_lossy(state).parse().expect("a number");
    let mut expected = files(state);
    expected.sort();
    if found != expected {
        return Err(format!("the files of state {state} are not those: {names:?}"));
    }
    for nth in 0..(state + 1) * PAGES {
        let page = page(nth);
        let stored = retried("get", || store.get(&Lookup::new(&page.url)))?;
        if stored.is_none_or(|stored| stored.body != page.body) {
            return Err(format!("state {state} has no page {nth}"));
        }
    }
    Ok(Some(state))
}

fn life(seed: u64, fault: Option<Fault>) -> Result<(), String> {
    let (objects, mut random) = (Arc::new(InMemory::new()), fastrand::Rng::with_seed(seed));
    let options = options(seed, fault);
    let (mut safe, mut alive) = (None, Vec::new());
    for owner in 0..OWNERS {
        let is_last = owner + 1 == OWNERS;
        let faults = if is_last { NONE } else { FAULTS };
        let end = Simulated::new(Arc::clone(&objects), seed ^ owner << 32, faults);
        let store = match opened(&end, Mode::Fill, &options) {
            Ok(store) => store,
            Err(error) if is_last => return Err(format!("no fault, and yet: {error}")),
            Err(_) => continue,
        };
        let found = state_of(&store)?;
        if found < safe {
            return Err(format!("state {found:?} was found, {safe:?} was safe"));
        }
        let mut state = found.map_or(0, |state| state + 1);
        let commits = random.usize(1..5);
        for commit in 0..commits {
            let stored =
                (state * PAGES..(state + 1) * PAGES).all(|nth| store.put(&page(nth), PutRule::IfChanged).is_ok());
            if !stored {
                break;
            }
            let after = Duration::from_millis(random.u64(..25));
            let synced = std::thread::scope(|scope| {
                let synced = scope.spawn(|| sync(&store, state));
                if commit + 1 == commits && !is_last {
                    std::thread::sleep(after);
                    end.cut();
                }
                synced.join().expect("no panic")
            });
            match synced {
                Ok(()) => (safe, state) = (Some(state), state + 1),
                Err(_) => break,
            }
        }
        alive.push((store, state));
    }
    // The earlier owner gets an error and changes nothing.
    let (last, _) = alive.pop().ok_or("no owner")?;
    for (store, state) in &alive {
        if sync(store, state + 50).is_ok() {
            return Err("a fenced owner was told that its files are safe".to_owned());
        }
    }
    let end = Simulated::new(objects, 0, NONE);
    last.close().map_err(|error| error.to_string())?;
    let reader = opened(&end, Mode::Read, &options).map_err(|error| error.to_string())?;
    let found = state_of(&reader)?;
    if found == safe { Ok(()) } else { Err(format!("state {found:?} at the end, not {safe:?}")) }
}

fn first_failure(seeds: u64, fault: Option<Fault>) -> Option<(u64, String)> {
    (0..seeds.div_ceil(AT_ONCE)).find_map(|part| {
        std::thread::scope(|scope| {
            let seeds = part * AT_ONCE..seeds.min((part + 1) * AT_ONCE);
            let runs: Vec<_> =
                seeds.map(|seed| scope.spawn(move || life(seed, fault).err().map(|what| (seed, what)))).collect();
            runs.into_iter().filter_map(|run| run.join().expect("no panic")).next()
        })
    })
}

#[test]
fn after_every_cut_the_files_and_the_pages_belong_together() {
    let seeds = std::env::var("FILEMAP_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(SEEDS);
    assert_eq!(first_failure(seeds, None), None);
}

#[test]
fn files_that_count_before_their_pages_are_caught() {
    let (seed, what) = first_failure(SEEDS_TO_CATCH, Some(Fault::KeptBeforePages)).expect("caught");
    assert!(what.contains("has no page"), "{what}");
    assert_eq!(life(seed, None), Ok(()), "seed {seed}");
}

#[test]
fn a_commit_writes_what_is_new_and_objects_of_old_manifests_go() {
    let objects = Arc::new(InMemory::new());
    let end = Simulated::new(Arc::clone(&objects), 1, NONE);
    // Polls must not be counted.
    let store = opened(&end, Mode::Fill, &options(0, None).poll(Duration::from_secs(3600))).expect("made");
    sync(&store, 0).expect("kept");
    end.quiet();
    sync(&store, 0).expect("nothing new");
    assert_eq!(end.counts.take(), [0; 5], "nothing new, no request");
    for state in 1..9 {
        sync(&store, state).expect("kept");
    }
    // A piece of three files, a manifest, the log of the index.
    let [_, puts, _, deletes, written] = end.counts.take();
    assert!(puts <= 8 * 5 + 2 && written < 8 * 3_000, "{puts} requests, {written} bytes");
    assert!(deletes >= 8 * 3, "{deletes}");
    let of_crawl = |objects: &Arc<InMemory>| {
        use filemap_cloud::object_store::ObjectStore as _;
        use futures_util::StreamExt as _;
        let listed = objects.list(Some(&"a/shard-00/crawl".into())).count();
        futures_util::FutureExt::now_or_never(listed).expect("in memory")
    };
    // journal.8: its only line; state, table, same, the manifest.
    assert_eq!(of_crawl(&objects), 5);
    // What another owner left is deleted once the grace period is over, here at once.
    let cut = Simulated::new(Arc::clone(&objects), 1, NONE);
    let second = opened(&cut, Mode::Write, &options(0, None)).expect("taken");
    cut.rule("put", "shard-00/ix", Rule::Refused);
    assert!(sync(&second, 9).is_err() && of_crawl(&objects) > 5);
    assert!(sync(&store, 9).is_err() && store.is_fenced());
    let third = opened(&end, Mode::Write, &options(0, None)).expect("taken");
    assert_eq!(third.kept().expect("read"), store.kept().expect("known"));
    sync(&third, 9).expect("kept");
    assert_eq!(of_crawl(&objects), 5);
    assert_eq!(end.ruled.load(Ordering::SeqCst), 0);
}

#[test]
fn a_repair_keeps_the_files_and_says_where_it_cannot() {
    let objects = Arc::new(InMemory::new());
    let end = Simulated::new(Arc::clone(&objects), 1, NONE);
    let options = options(1, None);
    let store = opened(&end, Mode::Fill, &options).expect("made");
    (0..PAGES).for_each(|nth| assert!(store.put(&page(nth), PutRule::Always).is_ok()));
    sync(&store, 0).expect("kept");
    store.close().expect("closed");
    let repaired = || repair_on(Arc::clone(&end) as _, "a", "the simulation", &options).expect("repaired");
    assert!(repaired().is_complete());
    let store = opened(&end, Mode::Write, &options).expect("opened");
    assert_eq!(state_of(&store), Ok(Some(0)));
    store.close().expect("closed");
    end.no_rule();
    let gone: Vec<_> = {
        use filemap_cloud::object_store::ObjectStore as _;
        use futures_util::{FutureExt as _, StreamExt as _};
        objects.list(Some(&"a/shard-00/ix".into())).collect::<Vec<_>>().now_or_never().expect("in memory")
    };
    for object in gone {
        use filemap_cloud::object_store::ObjectStoreExt as _;
        let path = object.expect("listed").location;
        futures_util::FutureExt::now_or_never(objects.delete(&path)).expect("in memory").expect("deleted");
    }
    let report = repaired();
    assert!(report.kept_lost && !report.is_complete() && report.versions == PAGES as u64, "{report:?}");
    let store = opened(&end, Mode::Write, &options).expect("opened");
    assert_eq!(store.kept().expect("none"), []);
}

#[test]
fn files_that_are_not_whole_are_named_and_a_repair_gives_them_up() {
    for (what, is_gone) in [("the manifest", true), ("a piece", true), ("the manifest", false), ("a piece", false)] {
        let objects = Objects::new();
        let end = Simulated::new(Arc::clone(&objects.objects), 1, NONE);
        let options = options(1, None);
        let store = opened(&end, Mode::Fill, &options).expect("made");
        (0..PAGES).for_each(|nth| assert!(store.put(&page(nth), PutRule::Always).is_ok()));
        sync(&store, 0).expect("kept");
        store.close().expect("closed");
        let reader = opened(&end, Mode::Read, &options).expect("opened");
        assert_eq!(reader.verify().expect("read").damage, [""; 0]);
        // Pieces are uploaded before the manifest that names them.
        let names = objects.names("a/shard-00/crawl");
        let name = if what == "a piece" { names.first() } else { names.last() }.expect("one");
        match is_gone {
            true => objects.delete(name),
            false => objects.replace(name, b"other bytes".to_vec()),
        }
        for is_full in [false, true] {
            let report = if is_full { reader.verify() } else { reader.verify_quick() }.expect("read");
            let is_told = report.damage.len() == 1 && report.damage[0].starts_with(&name.to_string()[2..]);
            let is_seen = is_full || is_gone || what == "the manifest";
            assert!(is_told == is_seen && !report.changed, "{what}, gone: {is_gone}, full: {is_full}: {report:?}");
        }
        if what == "a piece" && !is_gone {
            // A repair checks only names.
            continue;
        }
        let repaired = || repair_on(Arc::clone(&end) as _, "a", "the simulation", &options).expect("repaired");
        let report = repaired();
        assert!(report.kept_lost && !report.is_complete() && report.damage.len() == 1, "{what}: {report:?}");
        assert!(repaired().is_complete(), "it is reported once");
        let store = opened(&end, Mode::Write, &options).expect("opened");
        assert_eq!(store.kept().expect("none"), []);
        sync(&store, 0).expect("a crawl begins anew");
        assert_eq!(state_of(&store), Ok(Some(0)));
    }
}

#[test]
fn a_handle_that_reads_finds_the_files_of_now_when_those_it_knew_are_gone() {
    let objects = Objects::new();
    let end = Simulated::new(Arc::clone(&objects.objects), 1, NONE);
    // No grace period: replaced objects are deleted at once.
    let options = options(0, None);
    let store = opened(&end, Mode::Fill, &options).expect("made");
    let put = |pages: std::ops::Range<usize>| {
        pages.for_each(|nth| assert!(store.put(&page(nth), PutRule::Always).is_ok()));
    };
    put(0..PAGES);
    sync(&store, 0).expect("kept");
    let [one, other] = [(); 2].map(|()| opened(&end, Mode::Read, &options).expect("opened"));
    one.kept().expect("read");
    put(PAGES..3 * PAGES);
    sync(&store, 1).expect("kept");
    // One has read the manifest, the other has a view of the index that names it.
    assert_eq!(state_of(&other), Ok(Some(1)));
    let mut state = Vec::new();
    one.read_kept("state", &mut |part| {
        state.extend_from_slice(part);
        Ok(())
    })
    .expect("those of now");
    assert_eq!(state, b"1");
    assert_eq!(state_of(&one), Ok(Some(1)));
    store.close().expect("closed");
}

#[test]
fn objects_that_cannot_be_deleted_fail_no_commit() {
    let objects = Objects::new();
    let end = Simulated::new(Arc::clone(&objects.objects), 1, NONE);
    let options = options(0, None);
    let store = opened(&end, Mode::Fill, &options).expect("made");
    end.rule("delete", "shard-00/crawl", Rule::Refused);
    end.rule_too("list", "shard-00/crawl", Rule::Refused);
    (0..3).for_each(|state| sync(&store, state).expect("kept"));
    end.counts.take();
    sync(&store, 3).expect("kept");
    assert_eq!(end.counts.take()[3], 1, "the first that is refused is the last that is asked for");
    assert!(objects.names("a/shard-00/crawl").len() > 5);
    end.no_rule();
    sync(&store, 4).expect("kept");
    assert_eq!(objects.names("a/shard-00/crawl").len(), 5);
    store.close().expect("closed");
}
