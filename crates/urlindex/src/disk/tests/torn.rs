//! A follower beside a writer that rewrites the log's last sector: reads return half of the old
//! one and half of the new.

use std::io;
use std::path::Path;
use std::sync::Mutex;

use filemap_io::{Access, Advice, File, Locking, Map, StorageError};

use super::*;

/// A disk whose logs are read torn: old bytes up to a place in the sector, new ones from there on,
/// at another place each time.
#[derive(Debug)]
struct TornDir {
    dir: Arc<dyn Dir>,
    old: Vec<u8>,
    /// Places where the next reads are torn, taken from the end; after them reads are whole.
    places: Arc<Mutex<Vec<usize>>>,
    /// The same for reads of the header, which has the durable length.
    heads: Arc<Mutex<Vec<usize>>>,
}

#[derive(Debug)]
struct TornFile {
    file: Arc<dyn File>,
    old: Vec<u8>,
    places: Arc<Mutex<Vec<usize>>>,
    heads: Arc<Mutex<Vec<usize>>>,
}

impl Dir for TornDir {
    fn path(&self) -> &Path {
        self.dir.path()
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.dir.list()
    }

    fn open(&self, name: &str, access: Access) -> io::Result<Arc<dyn File>> {
        let file = self.dir.open(name, access)?;
        if !name.ends_with(".log") {
            return Ok(file);
        }
        let (places, heads) = (Arc::clone(&self.places), Arc::clone(&self.heads));
        Ok(Arc::new(TornFile { file, old: self.old.clone(), places, heads }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.dir.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.dir.remove(name)
    }

    fn sync(&self) -> io::Result<()> {
        self.dir.sync()
    }

    fn lock(&self, name: &str) -> io::Result<Locking> {
        self.dir.lock(name)
    }

    fn free_bytes(&self) -> io::Result<u64> {
        self.dir.free_bytes()
    }

    fn random(&self, buf: &mut [u8]) -> io::Result<()> {
        self.dir.random(buf)
    }
}

impl File for TornFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let read = self.file.read_at(buf, offset)?;
        let old = self.old.get(offset as usize..).unwrap_or_default();
        let places = if offset > 0 { &self.places } else { &self.heads };
        if !old.is_empty()
            && let Some(place) = places.lock().expect("one thread").pop()
        {
            let sector = read.min(old.len()) / 512 * 512 - 512;
            buf[sector..sector + place].copy_from_slice(&old[sector..sector + place]);
        }
        Ok(read)
    }

    fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_at(data, offset)
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn allocated_bytes(&self) -> io::Result<u64> {
        self.file.allocated_bytes()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }

    fn advise(&self, advice: Advice, offset: u64, len: u64) {
        self.file.advise(advice, offset, len);
    }

    fn map(&self, offset: u64, len: usize) -> io::Result<Arc<dyn Map>> {
        self.file.map(offset, len)
    }
}

fn log_of(disk: &SimDisk) -> Vec<u8> {
    let name = disk.names().into_iter().find(|name| name.ends_with(".log")).expect("a log");
    disk.bytes(&name).expect("there")
}

/// A set whose first `synced` URLs were synced first, then the rest up to `all`.
fn torn(synced: u64, all: u64, places: &[usize]) -> (DiskUrlSet, TornDir) {
    let disk = SimDisk::new(1);
    let set = DiskUrlSet::create_in(disk.dir(), "seen", options()).expect("made");
    (0..synced).for_each(|i| assert!(insert(&set, i)));
    set.sync().expect("synced");
    let old = log_of(&disk);
    (synced..all).for_each(|i| assert!(insert(&set, i)));
    set.sync().expect("synced");
    (set, TornDir { dir: disk.dir(), old, places: Arc::new(Mutex::new(places.to_vec())), heads: Arc::default() })
}

#[test]
fn a_sector_that_is_met_half_written_is_read_until_it_is_whole() {
    for (synced, all) in [(20, 30), (50, 60), (110, 130), (20, 60)] {
        let (_writer, dir) = torn(synced, all, &[4, 12, 5, 60]);
        let places = Arc::clone(&dir.places);
        let reader = DiskUrlSet::open_read_only_in(Arc::new(dir), "seen", options()).expect("opened to be read");
        assert!((0..synced).all(|i| is_seen(&reader, i)), "{synced} were synced, {} are there", reader.len());
        assert!((all..all + 50).all(|i| !is_seen(&reader, i)));
        assert!(places.lock().expect("one thread").len() < 3, "the sector was read again");
    }
}

#[test]
fn what_was_added_to_a_sector_between_two_reads_is_there_if_others_follow() {
    // One read of the whole old sector.
    let (_writer, dir) = torn(20, 60, &[512]);
    let reader = DiskUrlSet::open_read_only_in(Arc::new(dir), "seen", options()).expect("opened to be read");
    assert!((0..60).all(|i| is_seen(&reader, i)), "{} are there", reader.len());
}

#[test]
fn a_note_that_is_met_half_written_leaves_the_other() {
    for (synced, all) in [(20, 60), (50, 300)] {
        for place in [40, 41, 47, 49, 56, 57, 60, 66, 72] {
            let (_writer, mut dir) = torn(synced, all, &[]);
            dir.heads = Arc::new(Mutex::new(vec![place]));
            let heads = Arc::clone(&dir.heads);
            let reader = DiskUrlSet::open_read_only_in(Arc::new(dir), "seen", options()).expect("opened to be read");
            assert!((0..all).all(|i| is_seen(&reader, i)), "{place}: {} are there", reader.len());
            assert!(heads.lock().expect("one thread").is_empty());
        }
    }
}

#[test]
fn a_sector_that_stays_half_written_is_damage_if_it_was_durable_and_ends_the_log_if_not() {
    let (_writer, dir) = torn(50, 60, &[4; 1_000]);
    let opened = DiskUrlSet::open_read_only_in(Arc::new(dir), "seen", options());
    assert!(matches!(&opened, Err(Error::Storage(StorageError::Corrupt { offset: 1024, .. }))), "{opened:?}");

    // The state after a crash, with the notes from when only the first sector was durable.
    let (writer, mut dir) = torn(50, 60, &[4; 1_000]);
    let home = guard(&writer.state).home.clone();
    dir.old[..512].copy_from_slice(&log::header(&home, 1));
    dir.heads = Arc::new(Mutex::new(vec![512]));
    let reader = DiskUrlSet::open_read_only_in(Arc::new(dir), "seen", options()).expect("opened to be read");
    assert!((0..45).all(|i| is_seen(&reader, i)) && reader.len() == 45, "as a crash leaves it");
}
