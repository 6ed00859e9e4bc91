//! Canonical URLs, and the files of seen sets: any text, and any damage, with and without
//! recomputed checksums.
//!
//! The first byte says which. Below 64 it is a URL: four bytes of rules, and the text. Otherwise
//! it is a set of one of the kinds (its value modulo their number; the top bit asks for recomputed
//! checksums), and edits of its files: operation, file, offset (2 bytes), argument, and for an
//! overwrite that many bytes.
#![no_main]

mod sets;

use std::borrow::Cow;
use std::cell::RefCell;
use std::sync::Arc;

use filemap_io::sim::SimDisk;
use libfuzzer_sys::fuzz_target;
use peak_alloc::PeakAlloc;
use sets::{Image, Kind, NAME, URLS, fill, url};
use urlindex::canonical::{RuleSet, canonical_host, url_of_surt};
use urlindex::{
    BloomFilter, Canonicalizer, CrawlRules, DiskUrlSet, Error, GrowingFilter, Md5Bitmap, Result, SeenSet, StorageError,
    UrlTrie, Whatwg, host,
};

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// The files have less than 64 KiB, a run is read by 512 KiB, and the simulated disk keeps all
/// that was ever written.
const MEMORY_LIMIT: usize = 16 << 20;
const EXTREMES: [u64; 8] = [0, 0xff, 0xffff, 1 << 30, 0xffff_ffff, 1 << 60, u64::MAX, 64];

thread_local! {
    static IMAGES: RefCell<Vec<Image>> = const { RefCell::new(Vec::new()) };
}

fuzz_target!(|data: &[u8]| {
    match data.split_first() {
        None => {}
        Some((..64, rest)) => {
            let Some((bits, text)) = rest.split_first_chunk::<4>() else { return };
            canonical(u32::from_le_bytes(*bits), text);
        }
        Some((&first, edits)) => {
            let number = usize::from(first) % Kind::ALL.len();
            let image = IMAGES.with_borrow_mut(|images| {
                if images.is_empty() {
                    images.extend(Kind::ALL.map(Kind::image));
                }
                images[number].clone()
            });
            damaged(Kind::ALL[number], image, first & 0x80 != 0, edits);
        }
    }
});

fn canonical(bits: u32, text: &[u8]) {
    let bits = RuleSet::from_bits(bits % (1 << 22)).unwrap_or(RuleSet::CRAWL);
    for rules in [bits, RuleSet::CRAWL, RuleSet::SURT].map(CrawlRules::new) {
        let key = rules.canonical(text).map(Cow::into_owned);
        assert_eq!(rules.explain(text).key, key, "the short way and the long one, by {rules:?}");
        let Ok(key) = key else { continue };
        assert!(!key.is_empty() && key.is_ascii() && !key.contains(&0), "{key:?}");
        assert_eq!(rules.canonicalize(&key).as_deref(), Ok(&key[..]), "its own canonical form by {rules:?}");
        let _ = (host(&key), url_of_surt(&key));
    }
    assert_eq!(Whatwg.canonicalize(text), CrawlRules::whatwg().explain(text).key);
    let (base, link) = text.split_at(text.iter().position(|byte| *byte == b'\n').unwrap_or(0));
    let _ = (Whatwg.resolve(base, link), host(text), url_of_surt(text));
    let _ = std::str::from_utf8(text).map(canonical_host);
}

fn damaged(kind: Kind, mut image: Image, is_sealed: bool, mut edits: &[u8]) {
    for _ in 0..8 {
        let Some((edit, rest)) = edits.split_first_chunk::<5>() else { break };
        let name;
        (name, edits) = edited(&mut image, *edit, rest);
        if is_sealed {
            kind.seal(&mut image, &name);
            // An edit of two files changes the manifest too.
            kind.seal(&mut image, NAME);
        }
    }
    let before = MEMORY.current_usage();
    MEMORY.reset_peak_usage();
    for writes in [false, true] {
        let disk = SimDisk::new(1);
        image.iter().for_each(|(name, bytes)| disk.set_bytes(name, bytes));
        if let Err(error) = used(kind, &disk, writes) {
            assert!(is_clear(&error), "{kind:?}: {error}");
        }
    }
    let peak = MEMORY.peak_usage().saturating_sub(before);
    assert!(peak < MEMORY_LIMIT, "{kind:?}: {peak} bytes at once");
}

fn is_clear(error: &Error) -> bool {
    match error {
        Error::Storage(StorageError::Corrupt { file, what, .. }) => file.starts_with(NAME) && !what.is_empty(),
        Error::Storage(StorageError::Io { source, .. }) => source.kind() == std::io::ErrorKind::NotFound,
        Error::Storage(
            StorageError::NewerFormat { .. } | StorageError::Full { .. } | StorageError::Poisoned { .. },
        ) => true,
        // A sealed header may say that the keys are digests of bodies.
        Error::Unsupported { file, op, .. } => file == NAME && *op == "be opened as a set of URLs",
        _ => false,
    }
}

/// Opens a set and does with it what sets are for.
fn used(kind: Kind, disk: &SimDisk, writes: bool) -> Result<()> {
    let dir = disk.dir();
    match kind {
        Kind::Bitmap if writes => {
            let set = Md5Bitmap::open_in(dir, NAME)?;
            asked(&set, writes)?;
            set.close()
        }
        Kind::Bitmap => asked(&Md5Bitmap::open_read_only_in(dir, NAME)?, writes),
        Kind::Bloom | Kind::Blocked if writes => {
            let set = BloomFilter::open_in(dir, NAME)?;
            set.note_false_positive(url(9))?;
            asked(&set, writes)
        }
        Kind::Bloom | Kind::Blocked => asked(&BloomFilter::load_in(dir, NAME)?, writes),
        Kind::Growing if writes => asked(&GrowingFilter::open_in(dir, NAME)?, writes),
        Kind::Growing => asked(&GrowingFilter::load_in(dir, NAME)?, writes),
        Kind::Trie => {
            let set = UrlTrie::load_in(disk.dir(), NAME)?;
            asked(&set, writes)?;
            assert_eq!(set.iter().count() as u64, set.len());
            set.save_in(&*dir, NAME).map(drop)
        }
        Kind::Disk | Kind::Short if writes => {
            let set = DiskUrlSet::open_in(dir, NAME, kind.options())?;
            asked(&set, writes)?;
            set.forget(url(URLS + 3))?;
            set.snapshot_in(&SimDisk::new(2).dir())
        }
        Kind::Disk | Kind::Short => {
            let set = DiskUrlSet::open_read_only_in(Arc::clone(&dir), NAME, kind.options())?;
            asked(&set, writes)?;
            set.fingerprints()?.try_for_each(|fingerprint| fingerprint.map(drop))
        }
    }
}

fn asked(set: &dyn SeenSet, writes: bool) -> Result<()> {
    let stats = set.stats();
    assert!(!stats.false_positive_rate.is_sign_negative(), "{stats:?}");
    (0..URLS + 50).step_by(29).try_for_each(|i| set.contains(&url(i)).map(drop))?;
    let urls: Vec<Vec<u8>> = (0..2 * URLS).step_by(3).map(url).collect();
    let urls: Vec<&[u8]> = urls.iter().map(Vec::as_slice).collect();
    let mut verdicts = Vec::new();
    set.contains_batch(&urls, &mut verdicts)?;
    if writes {
        fill(set, URLS..URLS + 250)?;
        set.check_and_insert_batch(&urls, &mut verdicts)?;
        assert_eq!(verdicts.len(), urls.len());
        set.sync()?;
        assert!((URLS..URLS + 250).all(|i| set.contains(&url(i)).is_ok_and(|verdict| !verdict.is_new())));
    }
    Ok(())
}

/// Does one edit; the file that it changed, and the edits behind it.
fn edited<'d>(image: &mut Image, edit: [u8; 5], rest: &'d [u8]) -> (String, &'d [u8]) {
    let [operation, file, low, high, argument] = edit;
    let names: Vec<String> = image.keys().cloned().collect();
    let Some(name) = names.get(usize::from(file) % names.len().max(1)) else { return (String::new(), rest) };
    let (at, count) = (usize::from(u16::from_le_bytes([low, high])), usize::from(argument));
    let extreme = EXTREMES[count % EXTREMES.len()].to_le_bytes();
    let mut left = rest;
    match operation % 8 {
        6 => drop(image.remove(name)),
        // What the manifest and a run's head both say: they must agree to be believed.
        7 => {
            let field = 8 * (at % 3);
            let runs: Vec<&String> = names.iter().filter(|name| name.ends_with(".run")).collect();
            let Some(number) = usize::from(file).checked_rem(runs.len()) else { return (name.clone(), rest) };
            for (name, at) in [(runs[number].as_str(), 40 + field), (NAME, 96 + 48 * number + 16 + field)] {
                if let Some(place) = image.get_mut(name).and_then(|bytes| bytes.get_mut(at..at + 8)) {
                    place.copy_from_slice(&extreme);
                }
            }
            return (runs[number].clone(), rest);
        }
        operation => {
            let Some(bytes) = image.get_mut(name) else { return (name.clone(), rest) };
            let len = bytes.len();
            match operation {
                0 => {
                    let new;
                    (new, left) = rest.split_at(count.min(rest.len()));
                    bytes.iter_mut().skip(at).zip(new).for_each(|(byte, new)| *byte = *new);
                }
                1 => bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= argument),
                2 => bytes.truncate(at),
                3 => bytes.resize(len + 16 * count, argument),
                4 => {
                    *bytes = rest.to_vec();
                    left = &[];
                }
                _ => {
                    let width = [1, 2, 4, 8][count / EXTREMES.len() % 4];
                    if let Some(place) = bytes.get_mut(at..at + width) {
                        place.copy_from_slice(&extreme[..width]);
                    }
                }
            }
        }
    }
    (name.clone(), left)
}
