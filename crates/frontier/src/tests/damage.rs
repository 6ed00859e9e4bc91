//! Damage: bytes of a file that differ from those written.

use super::*;

/// A closed frontier with a snapshot, a journal of several batches, and URLs on both sides of the
/// snapshot.
fn closed() -> SimDisk {
    let (disk, mut frontier) = made(options().journal_bytes_min(4096).memory_bytes(4096));
    frontier.seed(&["http://a.example/"], 0).expect("seeded");
    for i in 0..60u32 {
        let assignment = fetch(&mut frontier, 0);
        let links: Vec<String> = (0..3).map(|link| format!("http://h{}.example/{i}/{link}", i % 7)).collect();
        let links: Vec<&str> = links.iter().map(|link| &link[..]).collect();
        done(&mut frontier, assignment.page, 0, &links);
        if i % 6 == 0 {
            frontier.commit().expect("committed");
        }
    }
    frontier.close().expect("closed");
    // Opening removes runs that the snapshot does not name.
    drop(Frontier::open_in(disk.dir(), options()).expect("opened"));
    assert!(disk.names().iter().any(|name| name.ends_with(".run")), "{:?}", disk.names());
    disk
}

/// Opens a damaged frontier and reads all of it: the result must be the original data, or an error
/// with the file and the offset.
fn judge(disk: &SimDisk, file: &str, at: usize, whole: &[String]) -> bool {
    let what = |error: Error| match error {
        Error::Storage(StorageError::Corrupt { file: named, offset, .. }) => {
            assert_eq!(named, file, "byte {at}");
            assert!(offset <= disk.bytes(file).expect("the file").len() as u64, "byte {at} of {file}: {offset}");
        }
        other => panic!("byte {at} of {file}: {other}"),
    };
    let frontier = match Frontier::open_in(disk.dir(), options()) {
        Ok(frontier) => frontier,
        Err(error) => {
            what(error);
            return true;
        }
    };
    assert_eq!(frontier.credit_units().expect("read"), ALL_CREDIT);
    assert_eq!(frontier.pages() as usize, whole.len(), "byte {at} of {file}");
    let mut is_found = false;
    for found in frontier.urls_from(PageId::new(0)) {
        match found {
            Ok((page, url)) => assert_eq!(url, whole[page.number() as usize], "byte {at} of {file}"),
            Err(error) => {
                what(error);
                is_found = true;
            }
        }
    }
    for url in whole {
        match frontier.page(url) {
            Ok(page) => assert_eq!(page.expect("it is known").key, *url, "byte {at} of {file}"),
            Err(error) => {
                what(error);
                is_found = true;
            }
        }
    }
    is_found
}

#[test]
fn any_flipped_byte_is_an_error_with_its_place_or_changes_nothing() {
    let disk = closed();
    let files: Vec<(String, Vec<u8>)> =
        disk.names().into_iter().map(|name| (name.clone(), disk.bytes(&name).expect("there"))).collect();
    let frontier = Frontier::open_in(disk.dir(), options()).expect("opened");
    let whole: Vec<String> = frontier.urls_from(PageId::new(0)).map(|found| found.expect("read").1).collect();
    assert!(whole.len() > 150 && frontier.stats().journal_bytes > 1536);
    drop(frontier);
    for (name, bytes) in files.iter().filter(|(name, _)| name != "frontier.lock") {
        let (mut unseen, mut tried) = (0, 0);
        for at in (0..bytes.len()).filter(|at| *at < 600 || at % 3 == 0) {
            files.iter().for_each(|(name, bytes)| disk.set_bytes(name, bytes));
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << (at % 8);
            disk.set_bytes(name, &damaged);
            unseen += usize::from(!judge(&disk, name, at, &whole));
            tried += 1;
        }
        // In a journal the zeros between batches have no meaning, and the mark at its end guards
        // only itself. The file of URLs is rebuilt from the journal after the snapshot's length.
        let allowed = if name.ends_with(".snapshot") || name.ends_with(".run") { 0 } else { tried * 3 / 4 };
        assert!(tried > 500 && unseen <= allowed, "{name}: {unseen} of {tried}");
    }
}

#[test]
fn files_that_are_cut_off_swapped_or_gone_are_errors() {
    let disk = closed();
    for name in disk.names().into_iter().filter(|name| name != "frontier.lock") {
        let whole = disk.bytes(&name).expect("there");
        for len in [0, 100, 511, 512, 600] {
            disk.set_bytes(&name, &whole[..len.min(whole.len())]);
            match Frontier::open_in(disk.dir(), options()) {
                Err(Error::Storage(StorageError::Corrupt { file, .. })) => assert_eq!(file, name),
                // A journal without batches is valid.
                Ok(frontier) => {
                    assert!(name.ends_with(".journal") && len >= 512, "{name} {len}");
                    drop(frontier);
                }
                Err(other) => panic!("{name} {len}: {other}"),
            }
        }
        disk.set_bytes(&name, &whole);
    }
    let (other_disk, journal) = (closed(), disk.names().into_iter().find(|name| name.ends_with(".journal")));
    let journal = journal.expect("a journal");
    for name in ["frontier.urls".to_owned(), journal.clone()] {
        // A second frontier with the same contents: only the id differs.
        let stranger = SimDisk::new(99);
        drop(Frontier::create_in(stranger.dir(), options()).expect("made"));
        let mine = disk.bytes(&name).expect("there");
        let bytes = stranger.bytes(if name == journal { "frontier.1.journal" } else { &name }).expect("there");
        disk.set_bytes(&name, &bytes);
        let opened = Frontier::open_in(disk.dir(), options());
        assert!(
            matches!(&opened, Err(Error::Storage(StorageError::Corrupt { file, .. })) if *file == name),
            "{opened:?}"
        );
        disk.set_bytes(&name, &mine);
    }
    other_disk.remove(&journal);
    let opened = Frontier::open_in(other_disk.dir(), options());
    assert!(
        matches!(&opened, Err(Error::Storage(StorageError::Corrupt { file, offset: 0, .. })) if *file == journal),
        "{opened:?}"
    );
}

#[test]
fn noise_in_any_file_never_panics() {
    let disk = closed();
    let files: Vec<(String, Vec<u8>)> =
        disk.names().into_iter().map(|name| (name.clone(), disk.bytes(&name).expect("there"))).collect();
    let mut rng = fastrand::Rng::with_seed(1);
    let mut refused = 0;
    for round in 0..600 {
        files.iter().for_each(|(name, bytes)| disk.set_bytes(name, bytes));
        let (name, bytes) = &files[round % files.len()];
        let mut damaged = bytes.clone();
        let (start, len) = (rng.usize(..bytes.len().max(1)), rng.usize(1..2_000));
        let end = (start + len).min(bytes.len());
        rng.fill(&mut damaged[start.min(end)..end]);
        disk.set_bytes(name, &damaged);
        match Frontier::open_in(disk.dir(), options()) {
            Ok(mut frontier) => {
                let _ = frontier.urls_from(PageId::new(0)).count();
                let _ = frontier.next(0);
            }
            Err(_) => refused += 1,
        }
    }
    assert!(refused > 100, "{refused}");
}

/// Invalid records with correct checksums: they are reported as damage, without a panic.
#[test]
fn a_journal_that_says_what_cannot_be_is_damage_though_its_checksum_is_right() {
    use crate::record::Record;
    let done = |page, known, new| Record::Done { page, due_s: 0, age: 8, lost: 0, known, depth: 1, new };
    let cases = [
        done(9, vec![], vec![]),
        done(0, vec![7], vec![]),
        done(0, vec![], vec!["http://a.example/"]),
        done(0, vec![], vec![""]),
        Record::Seeds { known: vec![4], new: vec![] },
        Record::Failed { page: 8, code: 1, attempts: 1, due_s: 0, is_gone: true },
    ];
    for forged in cases {
        let (disk, mut frontier) = made(options());
        frontier.seed(&["http://a.example/"], 0).expect("seeded");
        frontier.forge(&forged);
        frontier.commit().expect("committed");
        drop(frontier);
        let opened = Frontier::open_in(disk.dir(), options());
        assert!(
            matches!(&opened, Err(Error::Storage(StorageError::Corrupt { file, offset, .. })) if file == "frontier.1.journal" && *offset > 512),
            "{forged:?}: {opened:?}"
        );
    }
}

/// Invalid numbers in a snapshot with correct checksums: an error, or a frontier that works on.
#[test]
fn any_number_of_a_snapshot_may_be_extreme_though_its_checksum_is_right() {
    for disk in [closed(), in_a_round(8), in_a_round(0)] {
        forge_all(&disk);
    }
}

/// A frontier whose snapshot has a current round.
fn in_a_round(virtual_visits: u8) -> SimDisk {
    let options = options().journal_bytes_min(4096).memory_bytes(4096).virtual_visits(virtual_visits);
    let (disk, mut frontier) = made(options);
    let urls: Vec<String> = (0..150).map(|n| format!("http://h{}.example/{n}/{}", n % 7, "x".repeat(20))).collect();
    frontier.seed(&urls, 0).expect("seeded");
    let is_whole = |frontier: &Frontier| {
        let round = frontier.state.delivery.round.as_ref().filter(|round| round.done[0] < round.parcels.parcels.len());
        round.is_some_and(|round| virtual_visits == 0 || round.done[1] < round.looks.len() && !round.taken.is_empty())
    };
    while !is_whole(&frontier) {
        let page = fetch(&mut frontier, 0).page;
        done(&mut frontier, page, 0, &[&urls[(page.number() as usize * 31 + 70) % urls.len()]]);
    }
    frontier.commit().expect("committed");
    drop(frontier);
    disk
}

fn forge_all(disk: &SimDisk) {
    let names = disk.names();
    let files: Vec<(&String, Vec<u8>)> = names.iter().map(|name| (name, disk.bytes(name).expect("there"))).collect();
    let whole = disk.bytes("frontier.snapshot").expect("there");
    let (mut refused, mut went_on) = (0, 0);
    for at in (516..whole.len() - 8).step_by(4) {
        for extreme in [0, 1, 0xffff_ffff, 1 << 62, 1 << 63, u64::MAX, f64::MAX.to_bits(), f64::MIN_POSITIVE.to_bits()]
        {
            files.iter().for_each(|(name, bytes)| disk.set_bytes(name, bytes));
            let mut forged = whole.clone();
            forged[at..at + 8].copy_from_slice(&extreme.to_le_bytes());
            let block = forged.len().min(512 + (64 << 10));
            let mut hasher = crc32fast::Hasher::new();
            [&forged[16..32], &forged[32..40], &[0; 8], &forged[516..block]]
                .iter()
                .for_each(|part| hasher.update(part));
            forged[512..516].copy_from_slice(&hasher.finalize().to_le_bytes());
            disk.set_bytes("frontier.snapshot", &forged);
            match Frontier::open_in(disk.dir(), options().delay_ms(1)) {
                Err(Error::Storage(StorageError::Corrupt { .. })) => refused += 1,
                Err(other) => panic!("{at} {extreme}: {other}"),
                Ok(frontier) => {
                    went_on += 1;
                    goes_on(frontier);
                }
            }
        }
    }
    assert!(refused > 500 && went_on > 200, "{refused} {went_on}");
}

/// The outcome may be anything but a panic.
fn goes_on(mut frontier: Frontier) {
    if !has_all_credit(&frontier) {
        return;
    }
    let (mut now_ms, _) = (0, frontier.hosts().count());
    for i in 0..12u32 {
        match frontier.next(now_ms) {
            Ok(Next::Fetch(assignment)) => {
                let links = [format!("http://h1.example/{i}/0"), format!("http://h9.example/new/{i}")];
                let fetched = Fetched { links: &[&links[0], &links[1]], ..Fetched::default() };
                if frontier.done(assignment.page, &fetched).is_err() {
                    return;
                }
            }
            Ok(Next::Wait { until_ms }) => now_ms = until_ms,
            _ => return,
        }
    }
    if has_all_credit(&frontier) {
        let _ = frontier.close();
    }
}

/// Returns whether the credit of all pages can be read; if so, it must be complete.
fn has_all_credit(frontier: &Frontier) -> bool {
    match frontier.credit_units() {
        Ok(sum) => assert_eq!(sum, ALL_CREDIT),
        Err(Error::Storage(StorageError::Corrupt { .. })) => return false,
        Err(other) => panic!("{other}"),
    }
    true
}

/// Journals of the previous version have no parts, and no outages of hosts.
#[test]
fn a_journal_of_the_version_before_is_read() {
    use filemap_io::layout::Wire as _;
    let (disk, mut frontier) = made(options());
    frontier.seed(&["http://a.example/"], 0).expect("seeded");
    frontier.close().expect("closed");
    let name = "frontier.1.journal";
    let mut bytes = disk.bytes(name).expect("there");
    for at in [8, 10] {
        assert_eq!(u16::read(&bytes[at..at + 2]), 2);
        1u16.write(&mut bytes[at..at + 2]);
    }
    filemap_io::header::seal(&mut bytes[..512]);
    disk.set_bytes(name, &bytes);
    let mut frontier = Frontier::open_in(disk.dir(), options()).expect("opened");
    assert_eq!(frontier.pages(), 1);
    // A journal of an old version is not continued.
    frontier.commit().expect("committed");
    drop(frontier);
    assert!(disk.bytes(name).is_none());
    let name = "frontier.2.journal";
    let mut bytes = disk.bytes(name).expect("there");
    assert_eq!(u16::read(&bytes[8..10]), 2);
    3u16.write(&mut bytes[8..10]);
    filemap_io::header::seal(&mut bytes[..512]);
    disk.set_bytes(name, &bytes);
    let newer = Frontier::open_in(disk.dir(), options()).expect_err("newer");
    assert!(matches!(newer, Error::Storage(StorageError::NewerFormat { found: 3, supported: 2, .. })), "{newer}");
}

/// The end of the queues in a snapshot that begin at an offset.
fn behind_queues(bytes: &[u8], mut at: usize) -> usize {
    let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes")) as usize;
    at += 8 + 16 * number(at);
    let windows = number(at);
    at += 8;
    for _ in 0..windows {
        at += 24 + 8 * number(at + 12);
    }
    // Timers, and the record of those left out.
    at += 8 + 8 * number(at) + 16;
    at += 8 + 4 * number(at);
    // Credit waiting for the next round; there is none.
    at += 40;
    at += 8 + 9 * number(at);
    at += 8 + 8 * number(at);
    assert_eq!(number(at), 0);
    at + 8
}

/// The snapshot of some pages as older versions wrote it: with all rows, in the first version each
/// after its fingerprint, and without runs.
fn as_version(version: u16, disk: &SimDisk) -> Vec<u8> {
    let (bytes, table) =
        (disk.bytes("frontier.snapshot").expect("there"), disk.bytes("frontier.pages").expect("there"));
    let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes")) as usize;
    let (pages, hosts) = (number(516), number(520));
    let mut old = bytes[..516 + 8 + 19 * 8].to_vec();
    let mut at = old.len() + 8 + 8 + 7 * 4;
    for _ in 0..hosts {
        let end = at + 2 + usize::from(bytes[at]) + 3 * 8;
        old.extend(&bytes[at..end]);
        at = end + 8 + 8;
    }
    let mut rows = Vec::new();
    for _ in 0..pages.div_ceil(170) {
        rows.extend(&table[(1 + number(at)) * 4096..][..170 * 24]);
        at += 16;
    }
    let groups = &bytes[at..][..8 * pages.div_ceil(16)];
    let rest = &bytes[behind_queues(&bytes, at + groups.len())..];
    let fingerprints = &rest[8..];
    assert_eq!((&rest[..8], fingerprints.len()), (&[0; 8][..], 8 * pages));
    for (row, fingerprint) in rows.chunks(24).zip(fingerprints.chunks(8)) {
        old.extend(if version <= 2 { fingerprint } else { &[] });
        old.extend(row);
    }
    old.extend(groups);
    old.extend(if version <= 2 { &[] } else { rest });
    [8, 10].iter().for_each(|at| old[*at..*at + 2].copy_from_slice(&version.to_le_bytes()));
    filemap_io::header::seal(&mut old[..512]);
    let crc = filemap_io::header::crc32(&[&old[16..40], &[0; 8], &old[516..]]);
    old[512..516].copy_from_slice(&crc.to_le_bytes());
    old
}

#[test]
fn snapshots_of_the_versions_before_are_read_and_replaced() {
    for version in [1, 2, 3] {
        let (disk, mut frontier) = made(options().journal_bytes_min(4096));
        let urls: Vec<String> = (0..200).map(|n| format!("http://h{}.example/{n}", n % 3)).collect();
        frontier.seed(&urls, 0).expect("seeded");
        frontier.commit().expect("committed");
        let state_of_all = |frontier: &Frontier| urls.iter().map(|url| state_of(frontier, url)).collect::<Vec<_>>();
        let before = state_of_all(&frontier);
        frontier.close().expect("closed");
        disk.set_bytes("frontier.snapshot", &as_version(version, &disk));
        disk.remove("frontier.pages");
        let small = || options().journal_bytes_min(4096).memory_bytes(4096);
        for _ in 0..2 {
            // It is not replaced until the journal is long.
            let frontier = Frontier::open_in(disk.dir(), small()).expect("opened");
            assert_eq!(state_of_all(&frontier), before);
        }
        let mut frontier = Frontier::open_in(disk.dir(), small()).expect("opened");
        assert_eq!(frontier.seed(&urls, 0).expect("all are known"), 0);
        let more: Vec<String> = (0..600).map(|n| format!("http://h9.example/{n}")).collect();
        frontier.seed(&more, 0).expect("seeded");
        frontier.commit().expect("committed");
        drop(frontier);
        let snapshot = disk.bytes("frontier.snapshot").expect("there");
        assert_eq!((snapshot[8], disk.names().iter().any(|name| name.ends_with(".run"))), (6, true));
        let frontier = Frontier::open_in(disk.dir(), small()).expect("opened");
        assert_eq!(state_of_all(&frontier).len(), 200);
        assert_eq!((frontier.pages(), frontier.credit_units().expect("read")), (800, ALL_CREDIT));
    }
}
