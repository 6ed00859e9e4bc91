//! A store over several folders whose making is cut off at any call, on simulated disks: the next
//! opening makes it, or ends its making, and what was synced is there.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use filemap::access::{PutRule, Scope};
use filemap::sharded::ShardedStore;
use filemap::{Lookup, Options, Page, PageRead, PageStore, PageWrite};
use filemap_core::{Error, sim};
use filemap_io::sim::{Level, Loss, SimDisk};

type Disks = [SimDisk; 2];

fn options() -> Options {
    let options = Options::new().canonicalizer("whatwg", 1).free_space_floor(0).memtable_bytes(256 << 10);
    filemap::store::page_options(options)
}

/// The store on a disk, if one is there.
fn member(disk: &SimDisk) -> Option<PageStore> {
    match sim::open(disk.dir(), options()) {
        Err(Error::NotAStore { .. }) => None,
        opened => Some(PageStore::over(opened.expect("a store")).expect("pages")),
    }
}

fn opened(disks: &Disks) -> filemap::Result<ShardedStore> {
    ShardedStore::over(disks.iter().filter_map(member).collect())
}

fn filled(disks: &Disks) -> filemap::Result<ShardedStore> {
    let created = |disk: &SimDisk| PageStore::over(sim::create(disk.dir(), options()).expect("created"));
    let members = disks.iter().map(|disk| member(disk).map_or_else(|| created(disk), Ok));
    ShardedStore::make_over(members.collect::<filemap::Result<_>>()?)
}

/// Pages of hosts of both members.
fn pages() -> Vec<Page> {
    (0..8).map(|host| Page::new(format!("http://host{host}.example/"), 1_700_000_000_000, 200, "hello")).collect()
}

fn put(store: &ShardedStore) {
    pages().iter().for_each(|page| {
        store.put(page, PutRule::IfNew).expect("put");
    });
    assert!(store.members().iter().all(|member| member.count_pages().expect("counted") > 0));
}

/// Disks after a power failure, and whether the pages had been synced.
type Images = Arc<Mutex<Vec<(Disks, bool)>>>;

/// Draws images of both disks after each call that changes one.
fn observe(disks: &Disks, images: &Images, is_synced: &Arc<AtomicBool>) {
    for (nth, disk) in disks.iter().enumerate() {
        let (other, images, is_synced) = (disks[1 - nth].clone(), Arc::clone(images), Arc::clone(is_synced));
        disk.observe(Some(Box::new(move |snapshot| {
            for (at, loss) in Loss::ALL.into_iter().enumerate() {
                let level = if at % 2 == 0 { Level::Adversarial } else { Level::Ordered };
                let seed = snapshot.calls() * 10 + at as u64;
                let (own, other) = (snapshot.crash(level, loss, seed), other.crash(level, loss, seed + 5));
                let both = if nth == 0 { [own, other] } else { [other, own] };
                images.lock().unwrap().push((both, is_synced.load(Ordering::Relaxed)));
            }
        })));
    }
}

#[test]
fn a_set_whose_making_is_cut_off_is_made_by_the_next_opening_and_loses_no_synced_page() {
    let disks = [SimDisk::new(1), SimDisk::new(2)];
    let (images, is_synced) = (Images::default(), Arc::new(AtomicBool::new(false)));
    observe(&disks, &images, &is_synced);
    let store = filled(&disks).expect("made");
    put(&store);
    // One after the other: images are drawn of both.
    store.members().iter().for_each(|member| member.sync().expect("synced"));
    is_synced.store(true, Ordering::Relaxed);
    store.put(&Page::new("http://later.example/", 1_700_000_000_000, 200, "hello"), PutRule::IfNew).expect("put");
    disks.iter().for_each(|disk| disk.observe(None));
    let images = std::mem::take(&mut *images.lock().unwrap());
    assert!(images.len() > 100 && images.iter().any(|(_, is_synced)| *is_synced), "{} images", images.len());
    let (mut not_yet, mut made) = (0, 0);
    for (disks, is_synced) in images {
        if is_synced {
            let store = opened(&disks).expect("the set");
            let is_there = |page: &Page| store.contains(&Lookup::new(&page.url)).expect("read");
            assert!(pages().iter().all(is_there));
            continue;
        }
        match opened(&disks) {
            Ok(_) => made += 1,
            Err(filemap::Error::NotMembers { .. }) => not_yet += 1,
            Err(error) => panic!("{error}"),
        }
        let store = filled(&disks).expect("made");
        put(&store);
        store.close().expect("closed");
        drop(store);
        let store = opened(&disks).expect("the set");
        assert_eq!(store.count(&Scope::new()).expect("counted"), pages().len() as u64);
    }
    assert!(not_yet > 0 && made > 0, "{not_yet} {made}");
}
