//! The MD5 bitmap against its definition: golden slots, the file's bytes, its rate, crashes,
//! damage.

use std::collections::HashSet;

use filemap_io::StorageError;
use filemap_io::sim::{Failure, Fault, Level, Loss, SimDisk};

use super::*;
use crate::bloom::hash::{ap, bkdr, djb};

fn url(i: usize) -> Vec<u8> {
    format!("http://example.com/page/{i}").into_bytes()
}

fn created(disk: &SimDisk, bits: u32) -> Md5Bitmap {
    Md5Bitmap::create_in(disk.dir(), "seen", bits).expect("created")
}

#[test]
fn the_golden_url_has_its_golden_slot() {
    assert_eq!(md5_slot(b"http://www.ouc.edu.cn/", 32), 1_073_542_761);
    assert_eq!(md5_slot(b"http://www.ouc.edu.cn/", 28), 268_236_393);
    let slot = 268_236_393u64;
    // Bits 5-16, 17-27 and 28-32, counted from the most significant: segment, word, bit.
    let (segment, word, bit) = (slot >> 16 & 0xfff, slot >> 5 & 0x7ff, slot & 31);
    let disk = SimDisk::new(1);
    let set = created(&disk, 28);
    assert_eq!(set.check_and_insert(b"http://www.ouc.edu.cn/").expect("inserted"), Verdict::New);
    let bytes = disk.bytes("seen").expect("the file");
    assert_eq!(bytes.len(), 32 << 20);
    let at = (segment as usize * 2048 + word as usize) * 4;
    assert_eq!(get::<u32>(&bytes, at), 1 << bit);
    assert_eq!(bytes.iter().filter(|&&byte| byte != 0).count(), 1);
}

#[test]
fn above_32_bits_more_of_the_digest_is_used() {
    let wide = md5_slot(b"http://www.ouc.edu.cn/", 36);
    assert_eq!(wide & 0xffff_ffff, 1_073_542_761);
    assert!((0..100).any(|i| md5_slot(url(i), 36) >> 32 != 0));
}

#[test]
fn what_was_inserted_is_seen_and_the_rate_is_that_of_the_definition() {
    let set = created(&SimDisk::new(1), 18);
    let mut slots = HashSet::new();
    for i in 0..100_000 {
        let is_new = slots.insert(md5_slot(url(i), 18));
        assert_eq!(set.check_and_insert(&url(i)).expect("inserted").is_new(), is_new);
    }
    assert_eq!(set.len(), slots.len() as u64);
    assert!((0..100_000).all(|i| set.contains(&url(i)).expect("known") == Verdict::ProbablySeen));
    let false_positives = (100_000..200_000).filter(|&i| !set.contains(&url(i)).expect("known").is_new()).count();
    let (measured, theory) = (false_positives as f64 / 1e5, 1.0 - (-1e5 / 262_144f64).exp());
    assert!((measured / theory - 1.0).abs() < 0.05, "{measured} against {theory}");
    assert!((set.false_positive_rate() / theory - 1.0).abs() < 0.02);
    let lost = 100_000.0 - slots.len() as f64;
    assert!((set.expected_loss() / lost - 1.0).abs() < 0.05, "{} against {lost}", set.expected_loss());
}

#[test]
fn a_batch_is_answered_in_order() {
    let set = created(&SimDisk::new(1), 20);
    let urls: Vec<Vec<u8>> = (0..100).map(|i| url(i % 70)).collect();
    let urls: Vec<&[u8]> = urls.iter().map(Vec::as_slice).collect();
    let mut verdicts = vec![Verdict::Seen; 3];
    set.check_and_insert_batch(&urls, &mut verdicts).expect("inserted");
    assert!(verdicts[..70].iter().all(|verdict| verdict.is_new()) && verdicts[70..] == [Verdict::ProbablySeen; 30]);
}

#[test]
fn of_concurrent_inserts_of_one_url_exactly_one_is_new() {
    let set = created(&SimDisk::new(1), 24);
    let new: usize = std::thread::scope(|scope| {
        let insert = || (0..2000).filter(|&i| set.check_and_insert(&url(i)).expect("inserted").is_new()).count();
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(insert)).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
    });
    assert_eq!(new as u64, set.len());
    assert!(new >= 1998);
}

#[test]
fn a_bitmap_is_opened_again_as_it_was() {
    let disk = SimDisk::new(1);
    let set = created(&disk, 16);
    (0..500).for_each(|i| assert!(set.insert(&url(i)).is_ok()));
    let len = set.len();
    assert!(matches!(Md5Bitmap::open_in(disk.dir(), "seen"), Err(Error::Storage(StorageError::Locked { .. }))));
    set.close().expect("closed");
    let set = Md5Bitmap::open_in(disk.dir(), "seen").expect("opened");
    assert_eq!((set.len(), set.bits()), (len, 16));
    assert!((0..500).all(|i| !set.contains(&url(i)).expect("known").is_new()));
    set.close().expect("closed");
    assert!(matches!(Md5Bitmap::create_in(disk.dir(), "seen", 16), Err(Error::Storage(StorageError::Io { .. }))));
    for bits in [0, 15, 37] {
        assert!(matches!(
            Md5Bitmap::create_in(disk.dir(), "other", bits),
            Err(Error::Storage(StorageError::InvalidOption { .. }))
        ));
    }
}

#[test]
fn words_of_another_program_are_taken_up() {
    let disk = SimDisk::new(1);
    let mut words = vec![0; 8192];
    let slot = md5_slot(url(1), 16) as usize;
    words[slot / 8] |= 1 << (slot % 8);
    disk.set_bytes("seen", &words);
    let set = Md5Bitmap::adopt_in(disk.dir(), "seen").expect("taken up");
    assert_eq!((set.len(), set.contains(&url(1)).expect("known")), (1, Verdict::ProbablySeen));
    drop(set);
    disk.set_bytes("odd", &[0; 8191]);
    assert!(matches!(Md5Bitmap::adopt_in(disk.dir(), "odd"), Err(Error::NotASet { .. })));
}

/// Bits as a C program sets them: slot s is bit s mod 8 of byte s / 8, whatever the length of its
/// array.
#[test]
fn a_filter_of_chosen_functions_has_the_bits_that_other_programs_look_for() {
    let hashes = [SlotHash::Bkdr, SlotHash::Ap, SlotHash::Djb];
    for (slots, spare) in [(1_000_003, 0), (1_000_003, 1), (1 << 20, 0), (1 << 20, 8), (77, 0)] {
        let values = |url: &[u8]| [bkdr(url), ap(url), djb(url)].map(|value| u64::from(value) % slots);
        let mut theirs = vec![0u8; slots.div_ceil(8) as usize + spare];
        for i in 0..5 {
            values(&url(i)).iter().for_each(|slot| theirs[*slot as usize / 8] |= 1 << (slot % 8));
        }
        let disk = SimDisk::new(1);
        disk.set_bytes("seen", &theirs);
        let set = HashBitmap::adopt_in(disk.dir(), "seen", &hashes, Some(slots)).expect("taken up");
        assert_eq!((set.slots(), set.hashes()), (slots, &hashes[..]));
        assert!((0..5).all(|i| !set.contains(&url(i)).expect("known").is_new()));
        assert_eq!(disk.bytes("seen").expect("the file"), theirs, "no bit was changed");
        let new: Vec<usize> = (5..12).filter(|i| set.check_and_insert(&url(*i)).expect("inserted").is_new()).collect();
        for i in 5..12 {
            values(&url(i)).iter().for_each(|slot| theirs[*slot as usize / 8] |= 1 << (slot % 8));
        }
        if slots > 77 {
            assert_eq!((new.len(), set.len()), (7, 12));
        }
        set.close().expect("closed");
        assert_eq!(disk.bytes("seen").expect("the file"), theirs, "{slots} and {spare} bytes");
        let set = HashBitmap::open_in(disk.dir(), "seen").expect("opened");
        let mut verdicts = Vec::new();
        let urls: Vec<Vec<u8>> = (0..12).map(url).collect();
        set.contains_batch(&urls.iter().map(Vec::as_slice).collect::<Vec<_>>(), &mut verdicts).expect("known");
        assert!(verdicts.iter().all(|verdict| !verdict.is_new()));
        assert!(matches!(Md5Bitmap::open_in(disk.dir(), "seen"), Err(Error::Storage(StorageError::Locked { .. }))));
        drop(set);
        assert!(matches!(Md5Bitmap::open_in(disk.dir(), "seen"), Err(Error::NotASet { .. })));
    }
}

#[test]
fn the_rate_and_the_count_of_a_filter_of_functions_are_those_of_theory() {
    let disk = SimDisk::new(1);
    let set = HashBitmap::create_in(disk.dir(), "seen", &[SlotHash::Bkdr, SlotHash::Ap], 1 << 18).expect("made");
    (0..40_000).for_each(|i| assert!(set.insert(&url(i)).is_ok()));
    let false_positives = (100_000..150_000).filter(|&i| !set.contains(&url(i)).expect("known").is_new()).count();
    let (measured, theory) = (false_positives as f64 / 5e4, set.theoretical_rate(40_000));
    assert!((measured / theory - 1.0).abs() < 0.3, "{measured} against {theory}: the old functions are poor");
    assert!((set.len() as f64 / 40_000.0 - 1.0).abs() < 0.05, "{}", set.len());
    assert!((set.false_positive_rate() / theory - 1.0).abs() < 0.1 && set.expected_loss() > 0.0);
    for (hashes, slots) in
        [(&[][..], 9), (&[SlotHash::Ap, SlotHash::Ap], 9), (&[SlotHash::Ap], 0), (&[SlotHash::Ap], (1 << 31) + 1)]
    {
        let refused = HashBitmap::create_in(disk.dir(), "other", hashes, slots);
        assert!(matches!(refused, Err(Error::Storage(StorageError::InvalidOption { .. }))), "{hashes:?} {slots}");
    }
    disk.set_bytes("short", &[0; 9]);
    for slots in [73, 1, 0] {
        let refused = HashBitmap::adopt_in(disk.dir(), "short", &[SlotHash::Djb], Some(slots));
        assert!(
            matches!(refused, Err(Error::Storage(StorageError::InvalidOption { .. }))) == (slots != 1),
            "{slots}: {refused:?}"
        );
    }
}

#[test]
fn of_concurrent_inserts_of_one_url_of_several_bits_exactly_one_is_new() {
    let disk = SimDisk::new(1);
    let hashes = [SlotHash::Bkdr, SlotHash::Ap, SlotHash::Djb];
    let set = HashBitmap::create_in(disk.dir(), "seen", &hashes, 1 << 24).expect("made");
    let new: usize = std::thread::scope(|scope| {
        let insert = || (0..2000).filter(|&i| set.check_and_insert(&url(i)).expect("inserted").is_new()).count();
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(insert)).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
    });
    assert!((1998..=2000).contains(&new), "{new}");
}

#[test]
fn a_killed_process_loses_nothing() {
    let disk = SimDisk::new(1);
    let set = created(&disk, 16);
    (0..100).for_each(|i| assert!(set.insert(&url(i)).is_ok()));
    let set = Md5Bitmap::open_in(disk.kill().dir(), "seen").expect("opened");
    assert!((0..100).all(|i| !set.contains(&url(i)).expect("known").is_new()));
}

/// After any power loss, every synced URL is seen, and nothing is seen that was not inserted.
#[test]
fn nothing_synced_is_forgotten_and_nothing_unheard_of_is_seen() {
    for seed in 0..300u64 {
        let disk = SimDisk::new(seed);
        let mut rng = fastrand::Rng::with_seed(seed);
        let (mut inserted, mut synced) = (HashSet::new(), HashSet::new());
        let mut set = Some(created(&disk, 16));
        for _ in 0..rng.usize(1..60) {
            let handle = set.as_ref().expect("open");
            match rng.u8(..20) {
                0..14 => {
                    let i = rng.usize(..400);
                    handle.insert(&url(i)).expect("inserted");
                    inserted.insert(i);
                }
                14..18 => {
                    handle.sync().expect("synced");
                    synced.clone_from(&inserted);
                }
                _ => {
                    set.take().expect("open").close().expect("closed");
                    synced.clone_from(&inserted);
                    set = Some(Md5Bitmap::open_in(disk.dir(), "seen").expect("opened"));
                }
            }
        }
        let level = if rng.bool() { Level::Adversarial } else { Level::Ordered };
        let crashed = disk.crash(level, Loss::ALL[seed as usize % 4], seed);
        let set = Md5Bitmap::open_in(crashed.dir(), "seen").expect("opens by itself");
        let is_seen = |i: usize| !set.contains(&url(i)).expect("known").is_new();
        assert!(synced.iter().all(|&i| is_seen(i)), "seed {seed}: a synced URL is gone");
        let slots: HashSet<u64> = inserted.iter().map(|&i| md5_slot(url(i), 16)).collect();
        let stranger = (0..400).find(|&i| is_seen(i) && !slots.contains(&md5_slot(url(i), 16)));
        assert_eq!(stranger, None, "seed {seed}");
    }
}

#[test]
fn after_a_failed_sync_no_more_is_taken_and_look_ups_go_on() {
    let disk = SimDisk::new(1);
    let set = created(&disk, 16);
    set.insert(&url(1)).expect("inserted");
    disk.fail(Some(Failure { at: disk.calls() + 1, fault: Fault::Eio, only_syncs: true, forever: false }));
    assert!(matches!(set.sync(), Err(Error::Storage(StorageError::Io { .. }))));
    assert!(matches!(set.check_and_insert(&url(2)), Err(Error::Storage(StorageError::Poisoned { .. }))));
    assert!(matches!(set.sync(), Err(Error::Storage(StorageError::Poisoned { .. }))));
    assert_eq!(set.contains(&url(1)).expect("known"), Verdict::ProbablySeen);
    disk.heal();
    drop(set);
    let set = Md5Bitmap::open_in(disk.dir(), "seen").expect("opened");
    set.insert(&url(1)).expect("inserted again, or still there");
    set.sync().expect("synced");
}

#[test]
fn any_flipped_bit_of_a_closed_bitmap_is_found_with_file_and_offset() {
    let disk = SimDisk::new(1);
    let set = created(&disk, 17);
    (0..500).for_each(|i| assert!(set.insert(&url(i)).is_ok()));
    set.close().expect("closed");
    let whole = disk.bytes("seen").expect("the file");
    for at in [0, 8191, 8192, 16383] {
        let mut damaged = whole.clone();
        damaged[at] ^= 4;
        disk.set_bytes("seen", &damaged);
        match Md5Bitmap::open_in(disk.dir(), "seen") {
            Err(Error::Storage(StorageError::Corrupt { file, offset, .. })) => {
                assert_eq!((file.as_str(), offset), ("seen", at as u64 / 8192 * 8192))
            }
            other => panic!("byte {at}: {other:?}"),
        }
    }
    disk.set_bytes("seen", &whole[..16000]);
    assert!(matches!(
        Md5Bitmap::open_in(disk.dir(), "seen"),
        Err(Error::Storage(StorageError::Corrupt { offset: 16000, .. }))
    ));
    disk.set_bytes("seen", &whole);
    assert!(Md5Bitmap::open_in(disk.dir(), "seen").is_ok());
}

#[test]
fn a_merged_bitmap_has_the_urls_of_both_and_its_file_too() {
    let disk = SimDisk::new(1);
    let set = created(&disk, 20);
    (0..1_000).for_each(|i| assert!(set.insert(&url(i)).is_ok()));
    set.close().expect("closed");
    let other = Md5Bitmap::create_in(disk.dir(), "other", 20).expect("created");
    (500..2_000).for_each(|i| assert!(other.insert(&url(i)).is_ok()));
    let set = Md5Bitmap::open_in(disk.dir(), "seen").expect("opened");
    let before = set.len();
    assert_eq!(set.merge(&other).expect("merged"), set.len() - before);
    assert_eq!(set.merge(&other).expect("merged"), 0);
    set.close().expect("closed");
    let set = Md5Bitmap::open_read_only_in(disk.dir(), "seen").expect("opened");
    let urls: Vec<Vec<u8>> = (0..3_000).map(url).collect();
    let urls: Vec<&[u8]> = urls.iter().map(Vec::as_slice).collect();
    let mut verdicts = vec![Verdict::Seen];
    set.contains_batch(&urls, &mut verdicts).expect("known");
    assert!(verdicts[..2_000].iter().all(|verdict| *verdict == Verdict::ProbablySeen));
    let one_by_one: Vec<Verdict> = urls.iter().map(|url| set.contains(url).expect("known")).collect();
    assert_eq!(verdicts, one_by_one);
    assert!((set.false_positive_rate() / set.theoretical_rate(2_000) - 1.0).abs() < 0.01);
    assert!(matches!(set.check_and_insert(&url(1)), Err(Error::ReadOnly { .. })));
    assert!(matches!(set.check_and_insert_batch(&[&url(1)], &mut Vec::new()), Err(Error::ReadOnly { .. })));
    let wider = Md5Bitmap::create_in(disk.dir(), "wider", 21).expect("created");
    assert!(matches!(wider.merge(&other), Err(Error::Unsupported { why, .. }) if why.contains("2^20")));
}

#[test]
fn a_bitmap_that_is_open_to_be_read_shows_what_is_inserted_elsewhere() {
    // On the simulated disk a map does not see stores made through another map.
    let folder = tempfile::tempdir().expect("a folder");
    let dir = || Arc::new(filemap_io::OsDir::open(folder.path()).expect("opened"));
    Md5Bitmap::create_in(dir(), "seen", 20).expect("created").close().expect("closed");
    let reader = Md5Bitmap::open_read_only_in(dir(), "seen").expect("opened");
    let writer = Md5Bitmap::open_in(dir(), "seen").expect("a reader takes no lock");
    assert_eq!(reader.contains(&url(3)).expect("known"), Verdict::New);
    writer.insert(&url(3)).expect("inserted");
    assert_eq!(reader.contains(&url(3)).expect("known"), Verdict::ProbablySeen);
}
