//! Forged stores with right checksums. Reading them ends, takes bounded memory, and gives a value
//! that was put, nothing, or an error with its place.
//!
//! A separate program: its allocator counts the memory of the whole process.

use filemap_core::sim::{self, Limits};
use filemap_core::{Error, StorageError, Store};
use filemap_tests::hostile::forge::{self, PAGE, Value};
use filemap_tests::hostile::golden::{self, KEYS};
use filemap_tests::hostile::image::{Image, Scratch};
use filemap_tests::hostile::judge::Expect;
use filemap_tests::hostile::layout::Layout;
use peak_alloc::PeakAlloc;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// A page or chunk may have 64 MiB; a few tests run at once.
const MEMORY_LIMIT: f32 = 256.0;

fn check_memory() {
    let peak = MEMORY.peak_usage_as_mb();
    assert!(peak < MEMORY_LIMIT, "{peak} MiB at once");
}

/// Numbers that break things.
const EXTREMES: [u64; 10] = [0, 1, 255, 0xffff, 1 << 24, 1 << 30, 0xffff_ffff, 1 << 32, 1 << 60, u64::MAX];

/// Writes the low bytes of each extreme over a field, seals, and judges.
fn try_extremes(
    golden: &Image,
    file: &str,
    fields: impl Iterator<Item = (usize, usize)>,
    seal: impl Fn(&mut Vec<u8>, usize),
    expect: impl Fn(usize) -> Expect,
) {
    let mut scratch = Scratch::default();
    for (at, width) in fields {
        let expect = expect(at);
        let mut seen = Vec::new();
        for extreme in EXTREMES {
            let bytes = &extreme.to_le_bytes()[..width];
            if at + width > golden.file(file).len() || seen.contains(&bytes.to_vec()) {
                continue;
            }
            seen.push(bytes.to_vec());
            let mut forged = golden.clone();
            forged.file_mut(file)[at..at + width].copy_from_slice(bytes);
            seal(forged.file_mut(file), at);
            let what = format!("{file}: {width} bytes at {at} are {extreme:#x}");
            expect.both(&forged, &mut scratch).unwrap_or_else(|broken| panic!("{what}: {broken}"));
        }
    }
    check_memory();
}

#[test]
fn any_field_of_a_value_record_may_lie() {
    let golden = golden::image();
    let (layout, id) = (Layout::of(&golden), forge::store_id(golden.file("value0.dat")));
    let widths =
        [(8, 1), (9, 1), (10, 1), (11, 1), (12, 4), (16, 8), (24, 8), (32, 8), (40, 4), (44, 4), (48, 4), (52, 4)];
    for entry in &layout.values {
        let start = entry.range.start;
        let payload = forge::payload(golden.file("value0.dat"), start).start - start;
        let fields = widths.into_iter().chain([(payload, 8), (payload + 8, 4), (payload + 12, 4)]);
        try_extremes(
            &golden,
            "value0.dat",
            fields.map(|(at, width)| (start + at, width)),
            |file, _| forge::value_record(file, &id, 0, start),
            |_| entry.key.map_or_else(Expect::any_version, Expect::any_version_but),
        );
    }
}

#[test]
fn any_field_of_a_key_record_may_lie() {
    let golden = golden::image();
    let (layout, id) = (Layout::of(&golden), forge::store_id(golden.file("key0.dat")));
    let widths = [(4, 4), (8, 8), (16, 8), (24, 4), (28, 4), (32, 4), (36, 4), (40, 8), (48, 8)];
    for entry in &layout.keys {
        let start = entry.range.start;
        try_extremes(
            &golden,
            "key0.dat",
            widths.into_iter().map(|(at, width)| (start + at, width)),
            |file, _| forge::key_record(file, &id, start),
            |_| Expect::any_version(),
        );
    }
}

#[test]
fn any_field_of_the_index_may_lie() {
    let golden = golden::image();
    let (layout, id) = (Layout::of(&golden), forge::store_id(golden.file("address.idx")));
    for page in layout.leaves.iter().map(|l| l.0).chain([layout.directory, layout.table]) {
        let header = [(4, 1), (5, 1), (6, 2), (8, 8), (16, 8), (24, 8)].into_iter();
        let entries = (0..16).map(|nth| (32 + 8 * nth, 8));
        let parts = (0..8).map(|nth| (32 + 4 * nth, 4));
        let ends = [(40, 1), (56, 1), (36, 2), (38, 1), (4088, 8)].into_iter();
        try_extremes(
            &golden,
            "address.idx",
            header.chain(entries).chain(parts).chain(ends).map(|(at, width)| (page * PAGE + at, width)),
            |file, _| forge::page(file, &id, page),
            |_| Expect::any_version(),
        );
    }
}

#[test]
fn any_field_of_the_superblock_or_a_header_may_lie() {
    let golden = golden::image();
    let widths = [(12, 2), (14, 2), (32, 8), (40, 4), (44, 4), (48, 8), (80, 8), (136, 4), (140, 1), (141, 1)];
    // From the epoch on, to the end of the superblock.
    let words = (11..64).map(|nth| (8 * nth, 8));
    for copy in [0, 4096] {
        let fields = widths.into_iter().chain(words.clone()).map(|(at, width)| (copy + at, width));
        let seal = |file: &mut Vec<u8>, _| forge::superblock(file, copy);
        try_extremes(&golden, "SUPERBLOCK", fields, seal, |_| Expect::any_version());
    }
    for file in ["value0.dat", "key0.dat", "address.idx"] {
        let fields = [(0, 8), (12, 2), (14, 2), (16, 8), (32, 8), (40, 8), (48, 8)].into_iter();
        try_extremes(&golden, file, fields, |file, _| forge::header(file), |_| Expect::any_version());
    }
}

/// Records at the end of the golden store's log, and what is read then.
struct Tail {
    image: Image,
    id: [u8; 16],
}

impl Tail {
    fn new() -> Tail {
        let image = golden::image();
        let id = forge::store_id(image.file("value0.dat"));
        Tail { image, id }
    }

    fn add(&mut self, value: &Value) -> usize {
        value.append(self.image.file_mut("value0.dat"), &self.id, 0)
    }

    /// Opens it for writing or only for reading.
    fn open(&self, writes: bool) -> Store {
        let mut scratch = Scratch::default();
        scratch.hold(&self.image);
        let options = sim::with_limits(golden::options(), Limits { map_pages: 16, ..Limits::default() });
        if writes { sim::open(scratch.dir(), options) } else { sim::open_read_only(scratch.dir(), options) }.unwrap()
    }

    /// Checks the errors of the newest version of a key, both ways, and of its record by itself.
    fn fails(&self, key: &str, at: usize, why: &str) {
        for writes in [true, false] {
            let store = self.open(writes);
            match store.get(key.as_bytes()) {
                Err(Error::Storage(StorageError::Corrupt { file, offset, what })) => {
                    assert_eq!((&file[..], offset), ("value0.dat", at as u64), "{what}");
                    assert!(what.contains(why), "{what}, and not {why}");
                }
                other => panic!("a get gives {other:?}"),
            }
            let mut reader = store.get_reader(key.as_bytes());
            let read = reader.as_mut().map(|r| std::io::copy(r.as_mut().unwrap(), &mut std::io::sink()).is_err());
            assert!(read.unwrap_or(true), "a reader reads it");
            assert!(!store.verify().unwrap().problems.is_empty(), "verify finds nothing");
        }
        check_memory();
    }
}

const SEQUENCE: u64 = 1000;

fn zeros(bytes: usize) -> Vec<u8> {
    zstd::bulk::compress(&vec![0; bytes], 3).unwrap()
}

#[test]
fn a_small_page_that_decompresses_to_128_mib_is_damage() {
    // A frame without its content's length, as the engine writes them: repeated blocks of zeros.
    let mut bomb = vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x50];
    for nth in 0..1024u32 {
        let block = (128 << 10) << 3 | 1 << 1 | u32::from(nth == 1023);
        bomb.extend_from_slice(&block.to_le_bytes()[..3]);
        bomb.push(0);
    }
    assert_eq!(bomb.len(), 4102);
    for says in [5000, 1 << 20, 64 << 20] {
        let mut tail = Tail::new();
        let value = Value { codec: 1, raw_bytes: says, ..Value::new(1, SEQUENCE, 9000, KEYS[12], &bomb) };
        let at = tail.add(&value);
        tail.fails(KEYS[12], at, "does not decompress to its recorded length");
    }
    // A record longer than a page may be is not one: recovery cuts it off.
    let mut tail = Tail::new();
    tail.add(&Value { codec: 1, raw_bytes: 128 << 20, ..Value::new(1, SEQUENCE, 9000, KEYS[12], &bomb) });
    assert!(matches!(tail.open(true).get(KEYS[12].as_bytes()), Ok(None)));
    check_memory();
}

#[test]
fn a_frame_that_declares_an_immense_content_or_window_is_damage() {
    let block = [1, 0, 0]; // the last block: raw, empty
    let declared = [&[0x28, 0xb5, 0x2f, 0xfd, 0xe0][..], &(1u64 << 60).to_le_bytes(), &block].concat();
    let window = [&[0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xa8][..], &block].concat();
    for frame in [declared, window] {
        let mut tail = Tail::new();
        let value = Value { codec: 1, raw_bytes: 64 << 20, ..Value::new(1, SEQUENCE, 9000, KEYS[12], &frame) };
        let at = tail.add(&value);
        tail.fails(KEYS[12], at, "does not decompress to its recorded length");
    }
}

#[test]
fn a_meta_that_decompresses_to_more_than_it_says_is_damage() {
    let meta = zeros(16 << 20);
    assert!(meta.len() < 2000);
    let mut tail = Tail::new();
    let value =
        Value { meta_codec: 1, meta, meta_raw_bytes: 65_536, ..Value::new(1, SEQUENCE, 9000, KEYS[12], b"body") };
    let at = tail.add(&value);
    tail.fails(KEYS[12], at, "meta does not decompress");
}

/// A list of these chunks as the newest version of a key.
fn list(tail: &mut Tail, key: &str, entries: &[Vec<u8>], raw_bytes: u64) -> usize {
    tail.add(&Value { raw_bytes, ..Value::new(5, SEQUENCE + 9, 9000, key, &entries.concat()) })
}

#[test]
fn a_list_of_chunks_that_names_itself_another_key_or_nothing_gives_no_body() {
    let whole = Tail::new();
    let end = whole.image.file("value0.dat").len().next_multiple_of(64);
    let key = KEYS[12];
    // Below the tail nothing is looked at when the log is replayed: the read must find out.
    let layout = Layout::of(&whole.image);
    let page = layout.values.iter().find(|e| e.kind == "page record").unwrap().range.start;
    let foreign = layout.values.iter().find(|e| e.kind == "chunk record").unwrap().range.clone();
    let units = (foreign.len() / 64) as u32;
    let why = "not the chunk that its list names";
    for (entry, raw, is_verified) in [
        (forge::chunk_entry(page, 20, 2), 20, true),
        (forge::chunk_entry(64 * 9000, 20, 2), 20, true),
        (forge::chunk_entry(foreign.start, 64 << 10, units), 64 << 10, false),
    ] {
        let mut tail = Tail::new();
        let at = list(&mut tail, key, std::slice::from_ref(&entry), raw);
        for writes in [true, false] {
            let store = tail.open(writes);
            // To a reader the list is not in the index yet: it may go with the writer's next
            // recovery.
            if is_verified && writes && store.history(key.as_bytes()).is_ok_and(|h| !h.is_empty()) {
                let problems = store.verify().unwrap().problems;
                let told = problems.iter().find(|p| p.offset == at as u64).expect("verify tells it");
                assert!(told.what.contains("lists a chunk that is missing"), "{told:?}");
            }
            match store.get(key.as_bytes()) {
                // A list of what lies behind the end was never written, to recovery and to
                // readers.
                Ok(None) if entry == forge::chunk_entry(64 * 9000, 20, 2) => {}
                Err(Error::Storage(StorageError::Corrupt { what, .. })) => assert!(what.contains(why), "{what}"),
                other => panic!("a get gives {other:?}"),
            }
        }
    }
    // One that names itself, and so a place that holds no chunk when it is read, counts as never
    // written.
    let mut tail = Tail::new();
    let at = list(&mut tail, key, &[forge::chunk_entry(end, 20, 2)], 20);
    assert_eq!(at, end);
    for writes in [true, false] {
        assert!(matches!(tail.open(writes).get(key.as_bytes()), Ok(None)));
    }
    check_memory();
}

#[test]
fn references_that_lead_to_themselves_or_round_give_no_body() {
    let reference =
        |sequence: u64, to: u64| Value { raw_bytes: 8, ..Value::new(2, sequence, 9000, KEYS[12], &to.to_le_bytes()) };
    for pair in [[(1000, 1000), (1001, 1000)], [(1000, 1001), (1001, 1000)]] {
        let mut tail = Tail::new();
        for (sequence, to) in pair {
            tail.add(&reference(sequence, to));
        }
        // A reference to a later record was never written, to recovery and to readers.
        for writes in [true, false] {
            assert!(matches!(tail.open(writes).get(KEYS[12].as_bytes()), Ok(None)));
        }
    }
    // Below the tail a reference is believed without a look: one to a version with another body
    // gives none.
    let mut tail = Tail::new();
    let at = tail.add(&Value { raw_bytes: 20, ..Value::new(2, SEQUENCE, 9000, KEYS[1], &1u64.to_le_bytes()) });
    tail.fails_to_refer(KEYS[1], at);
}

impl Tail {
    fn fails_to_refer(&self, key: &str, at: usize) {
        for writes in [true, false] {
            match self.open(writes).get(key.as_bytes()) {
                Err(Error::Storage(StorageError::Corrupt { file, offset, what })) => {
                    assert_eq!((&file[..], offset), ("value0.dat", at as u64));
                    assert!(what.contains("another body"), "{what}");
                }
                other => panic!("a get gives {other:?}"),
            }
        }
    }
}

/// The golden store with a leaf changed and sealed.
fn with_leaf(change: impl Fn(&mut [u8], usize)) -> Tail {
    let mut tail = Tail::new();
    let layout = Layout::of(&tail.image);
    let page = layout.leaves.iter().find(|l| l.1.contains(&1)).unwrap().0;
    let index = tail.image.file_mut("address.idx");
    let count = usize::from(index[page * PAGE + 6]);
    change(&mut index[page * PAGE + 32..(page + 1) * PAGE], count);
    forge::page(index, &tail.id, page);
    tail
}

/// Everything in a slot but its 40 bits of hash.
fn target(slots: &[u8], nth: usize) -> Vec<u8> {
    let slot = &slots[16 * nth..16 * nth + 16];
    [&slot[..3], &slot[8..]].concat()
}

fn aim(slots: &mut [u8], nth: usize, target: &[u8]) {
    slots[16 * nth..16 * nth + 3].copy_from_slice(&target[..3]);
    slots[16 * nth + 8..16 * nth + 16].copy_from_slice(&target[3..]);
}

#[test]
fn slots_that_changed_places_are_damage_and_not_absence() {
    let tail = with_leaf(|slots, count| {
        let targets: Vec<Vec<u8>> = (0..count).map(|nth| target(slots, nth)).collect();
        (0..count).for_each(|nth| aim(slots, nth, &targets[(nth + 1) % count]));
    });
    // Of these keys the newest version, or all, lie in the index.
    for key in [1, 5] {
        for writes in [true, false] {
            let store = tail.open(writes);
            for result in [store.get(KEYS[key].as_bytes()).map(|_| ()), store.history(KEYS[key].as_bytes()).map(|_| ())]
            {
                match result {
                    Err(Error::Storage(StorageError::Corrupt { what, .. })) => {
                        assert!(what.contains("another hash"), "{what}")
                    }
                    other => panic!("a read of {} gives {other:?}", KEYS[key]),
                }
            }
        }
    }
    let report = tail.open(false).verify().unwrap();
    assert!(!report.problems.is_empty());
}

#[test]
fn a_slot_that_claims_the_longest_record_takes_no_memory_for_it() {
    let tail = with_leaf(|slots, count| (0..count).for_each(|nth| slots[16 * nth + 8] = 255));
    for writes in [true, false] {
        for key in KEYS {
            let _ = tail.open(writes).get(key.as_bytes());
        }
    }
    check_memory();
}

#[test]
fn a_directory_that_names_a_page_twice_serves_no_key_from_the_wrong_one() {
    let mut tail = Tail::new();
    let layout = Layout::of(&tail.image);
    let node = layout.directory;
    let index = tail.image.file_mut("address.idx");
    let entries: Vec<usize> =
        (0..128).map(|nth| node * PAGE + 32 + 8 * nth).filter(|&at| forge::u32_at(index, at) != 0).collect();
    assert_eq!(entries.len(), 2);
    index.copy_within(entries[0]..entries[0] + 8, entries[1]);
    forge::page(index, &tail.id, node);
    let mut scratch = Scratch::default();
    let told = Expect::any_version().both(&tail.image, &mut scratch).unwrap();
    assert!(told.told && !told.closed);
    let store = tail.open(false);
    assert!(
        KEYS.iter()
            .any(|key| matches!(store.history(key.as_bytes()), Err(Error::Storage(StorageError::Corrupt { .. }))))
    );
}
