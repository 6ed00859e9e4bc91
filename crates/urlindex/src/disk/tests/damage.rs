//! Damage: changed bytes in a file, one at a time and many.

use filemap_io::StorageError;

use super::*;

/// A closed set with two runs and a log; it has the URLs below 1,900, except the multiples of 10
/// below 500.
fn closed() -> SimDisk {
    let disk = SimDisk::new(1);
    let set = DiskUrlSet::create_in(disk.dir(), "seen", options()).expect("made");
    insert_batch(&set, 0..1_200);
    insert_batch(&set, 1_200..1_800);
    (1_800..1_900).for_each(|i| assert!(insert(&set, i)));
    (0..50).for_each(|i| assert!(set.forget(url(10 * i)).expect("forgotten")));
    assert_eq!(set.disk_stats().runs, 2);
    drop(set);
    disk
}

fn is_right(i: u64, is_seen: bool) -> bool {
    is_seen == (i < 1_900 && (!i.is_multiple_of(10) || i >= 500))
}

/// Opens a damaged set and looks up everything: answers must be right, or an error must name file
/// and offset.
fn judge(disk: &SimDisk, file: &str, at: usize) -> bool {
    let what = |error: Error| match error {
        Error::Storage(StorageError::Corrupt { file: named, offset, .. }) => {
            assert_eq!(named, file, "byte {at}");
            assert!(offset <= disk.bytes(file).expect("the file").len() as u64);
            assert!(
                file == "seen" || offset / 4096 == at as u64 / 4096 || offset >= 4096,
                "byte {at} of {file}: {offset}"
            );
        }
        other => panic!("byte {at} of {file}: {other}"),
    };
    let set = match DiskUrlSet::open_in(disk.dir(), "seen", options()) {
        Ok(set) => set,
        Err(error) => {
            what(error);
            return true;
        }
    };
    let mut is_found = false;
    for i in (0..2_500).step_by(13).chain([0, 10, 490]) {
        match set.contains(&url(i)) {
            Ok(verdict) => assert!(is_right(i, !verdict.is_new()), "byte {at} of {file}: URL {i} is {verdict:?}"),
            Err(error) => {
                what(error);
                is_found = true;
            }
        }
    }
    is_found
}

#[test]
fn any_flipped_byte_is_an_error_with_its_place_or_changes_no_answer() {
    let disk = closed();
    let whole: Vec<(String, Vec<u8>)> =
        disk.names().into_iter().map(|name| (name.clone(), disk.bytes(&name).expect("there"))).collect();
    let restore = || whole.iter().for_each(|(name, bytes)| disk.set_bytes(name, bytes));
    for (name, bytes) in &whole {
        let (mut found, mut tried) = (0, 0);
        for at in (0..bytes.len()).filter(|at| bytes.len() < 3_000 || at % 7 == 0 || *at < 100) {
            restore();
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << (at % 8);
            disk.set_bytes(name, &damaged);
            found += usize::from(judge(&disk, name, at));
            tried += 1;
        }
        if name == "seen.lock" {
            continue;
        }
        // Damage goes unnoticed only in the mark of a closed log, which is its last sector, and in
        // one of its two notes.
        let unseen = if name.ends_with(".log") { 512 + 32 } else { 0 };
        assert!(found + unseen >= tried, "{name}: {found} of {tried}");
    }
    restore();
    assert!(!judge(&disk, "", 0));
}

#[test]
fn files_that_are_cut_off_swapped_or_gone_are_errors() {
    let disk = closed();
    let files: Vec<String> =
        disk.names().into_iter().filter(|name| name.ends_with(".run") || name.ends_with(".log")).collect();
    assert_eq!(files.len(), 3, "{files:?}");
    for name in &files {
        let whole = disk.bytes(name).expect("there");
        disk.set_bytes(name, &whole[..whole.len() - 1024]);
        let opened = DiskUrlSet::open_in(disk.dir(), "seen", options());
        assert!(
            matches!(&opened, Err(Error::Storage(StorageError::Corrupt { file, .. })) if file == name),
            "{opened:?}"
        );
        drop(opened);
        disk.set_bytes(name, &whole);
    }
    let (a, b) = (disk.bytes(&files[0]).expect("there"), disk.bytes(&files[1]).expect("there"));
    disk.set_bytes(&files[0], &b);
    disk.set_bytes(&files[1], &a);
    assert!(matches!(
        DiskUrlSet::open_in(disk.dir(), "seen", options()),
        Err(Error::Storage(StorageError::Corrupt { .. }))
    ));
    disk.set_bytes(&files[0], &a);
    disk.set_bytes(&files[1], &b);
    disk.remove(&files[0]);
    let opened = DiskUrlSet::open_in(disk.dir(), "seen", options());
    assert!(
        matches!(&opened, Err(Error::Storage(StorageError::Corrupt { file, offset: 0, .. })) if *file == files[0]),
        "{opened:?}"
    );
}

/// A set with this many URLs in its log, synced or closed, and that log's name.
fn logged(urls: u64, is_closed: bool) -> (SimDisk, String) {
    let disk = SimDisk::new(1);
    let set = DiskUrlSet::create_in(disk.dir(), "seen", options()).expect("made");
    // In several syncs, the last of which adds no sector where there is room in one.
    for part in 0..3 {
        (urls * part / 3..urls * (part + 1) / 3).for_each(|i| assert!(insert(&set, i)));
        set.sync().expect("synced");
    }
    // What a killed process wrote reaches the disk sooner or later.
    let killed = disk.kill();
    drop(set);
    let disk = if is_closed { disk } else { killed };
    let log = disk.names().into_iter().find(|name| name.ends_with(".log")).expect("a log");
    (disk, log)
}

#[test]
fn a_log_that_is_cut_off_anywhere_is_damage() {
    for (urls, is_closed) in [(1, true), (90, true), (100, true), (100, false), (90, false)] {
        let (disk, log) = logged(urls, is_closed);
        let whole = disk.bytes(&log).expect("there");
        let durable = 512 * (1 + urls.div_ceil(45) as usize);
        for len in (0..whole.len()).filter(|len| len % 512 < 2 || len % 97 == 0) {
            disk.set_bytes(&log, &whole[..len]);
            let read = DiskUrlSet::open_read_only_in(disk.dir(), "seen", options());
            let opened = DiskUrlSet::open_in(disk.dir(), "seen", options());
            for opened in [read, opened] {
                match opened {
                    Ok(set) => assert!(len >= durable && (0..urls).all(|i| is_seen(&set, i)), "{urls}: {len}"),
                    Err(Error::Storage(StorageError::Corrupt { file, offset, .. })) => {
                        assert!(file == log && len < durable && offset <= len as u64, "{urls}: {len}, {offset}");
                    }
                    Err(other) => panic!("{urls}: {len}: {other}"),
                }
            }
        }
    }
}

#[test]
fn a_log_of_an_older_build_is_opened_and_the_next_has_a_note() {
    let (disk, log) = logged(100, true);
    let mut bytes = disk.bytes(&log).expect("there");
    log::forget_notes(&mut bytes);
    // That log looks like one that a crash cut.
    disk.set_bytes(&log, &bytes[..1024]);
    let set = DiskUrlSet::open_read_only_in(disk.dir(), "seen", options()).expect("opened to be read");
    assert_eq!(set.len(), 45);
    disk.set_bytes(&log, &bytes);
    for urls in [100, 170] {
        let set = DiskUrlSet::open_in(disk.dir(), "seen", options()).expect("opened");
        assert!((0..urls).all(|i| is_seen(&set, i)) && set.len() == urls);
        (urls..urls + 70).for_each(|i| assert!(insert(&set, i)));
    }
    // The table was full: another log was begun.
    let log = disk.names().into_iter().find(|name| name.ends_with(".log")).expect("a log");
    let bytes = disk.bytes(&log).expect("there");
    disk.set_bytes(&log, &bytes[..512]);
    let opened = DiskUrlSet::open_in(disk.dir(), "seen", options());
    assert!(
        matches!(&opened, Err(Error::Storage(StorageError::Corrupt { file, offset: 512, .. })) if *file == log),
        "{opened:?}"
    );
}

#[test]
fn a_log_none_of_whose_notes_is_whole_is_damage() {
    let (disk, log) = logged(100, true);
    let whole = disk.bytes(&log).expect("there");
    for at in [40, 56] {
        let mut bytes = whole.clone();
        bytes[at..at + 16].fill(0);
        disk.set_bytes(&log, &bytes);
        let set = DiskUrlSet::open_read_only_in(disk.dir(), "seen", options()).expect("the other is whole");
        assert_eq!(set.len(), 100);
        bytes[40..72].fill(0);
        disk.set_bytes(&log, &bytes);
        let opened = DiskUrlSet::open_in(disk.dir(), "seen", options());
        assert!(
            matches!(&opened, Err(Error::Storage(StorageError::Corrupt { file, offset: 40, .. })) if *file == log),
            "{opened:?}"
        );
    }
}

#[test]
fn blocks_of_noise_never_panic() {
    let disk = closed();
    let run = disk.names().into_iter().find(|name| name.ends_with(".run")).expect("a run");
    let whole = disk.bytes(&run).expect("there");
    let mut rng = fastrand::Rng::with_seed(1);
    for _ in 0..200 {
        let mut damaged = whole.clone();
        let (start, len) = (rng.usize(..whole.len()), rng.usize(1..6_000));
        let end = (start + len).min(whole.len());
        rng.fill(&mut damaged[start..end]);
        disk.set_bytes(&run, &damaged);
        assert!(judge(&disk, &run, start) || damaged == whole);
    }
}

/// Found by the fuzz target `seen`: impossible numbers under a right checksum were used in
/// computations.
#[test]
fn numbers_that_no_set_has_are_damage_though_the_checksum_is_right() {
    let disk = closed();
    let whole = disk.bytes("seen").expect("there");
    // The next number, the log's, the URLs; and of the first run number, blocks, URLs, tombstones
    // and squares.
    for at in [48, 56, 72, 104, 104 + 16, 104 + 24, 104 + 32, 104 + 40] {
        for value in [u64::MAX, u64::MAX / 2, f64::NAN.to_bits()] {
            let mut forged = whole.clone();
            forged[at..at + 8].copy_from_slice(&value.to_le_bytes());
            let crc_at = forged.len() - 4;
            let crc = crc32fast::hash(&forged[..crc_at]);
            forged[crc_at..].copy_from_slice(&crc.to_le_bytes());
            disk.set_bytes("seen", &forged);
            let opened = DiskUrlSet::open_in(disk.dir(), "seen", options());
            assert!(
                matches!(&opened, Err(Error::Storage(StorageError::Corrupt { file, .. })) if file == "seen"),
                "{at}: {opened:?}"
            );
        }
    }
}

/// A merge of such a run would subtract the larger from the smaller.
#[test]
fn entries_out_of_order_are_damage_though_the_checksum_is_right() {
    let disk = closed();
    let run = disk.names().into_iter().find(|name| name.ends_with(".run")).expect("a run");
    let mut forged = disk.bytes(&run).expect("there");
    let salt = forged[16..40].to_vec();
    // Two blocks change places, each with the checksum of its new place.
    let (first, second) = forged[4096..3 * 4096].split_at_mut(4096);
    first.swap_with_slice(second);
    for number in 0..2u64 {
        let block = &mut forged[4096 * (1 + number as usize)..][..4096];
        let crc = crc32fast::hash(&[&salt, &number.to_le_bytes()[..], &block[4..]].concat());
        block[..4].copy_from_slice(&crc.to_le_bytes());
    }
    disk.set_bytes(&run, &forged);
    let set = DiskUrlSet::open_in(disk.dir(), "seen", options()).expect("opened");
    let read = set.fingerprints().expect("begun").try_for_each(|fingerprint| fingerprint.map(drop));
    assert!(
        matches!(&read, Err(Error::Storage(StorageError::Corrupt { file, offset: 8192, .. })) if *file == run),
        "{read:?}"
    );
    let merged = (0..5_000).map(|i| 2_000 + i).try_for_each(|i| set.insert(&url(i)).map(drop));
    assert!(matches!(&merged, Err(Error::Storage(StorageError::Corrupt { .. }))), "{merged:?}");
}
