//! Keys, values and times at their limits: round trips through the log, the index, recovery and
//! other handles, which agree with one another.

use crate::moment;
use filemap_core::{Error, Options, Record, Store, Version};

const LARGE: usize = 64 << 10;

fn options() -> Options {
    Options::new().segment_bytes(1 << 20).large_value_bytes(LARGE as u64).free_space_floor(0)
}

/// Ends a handle without a checkpoint, as a crash of the process does: puts are only in the log.
/// Returns a copy of the store in that state.
fn crashed(store: &Store) -> tempfile::TempDir {
    let temp = tempfile::tempdir().unwrap();
    moment::copy(store.path(), &temp.path().join("a"));
    temp
}

/// Runs `check` on a store as it is: from its memtable, after recovery, through a follower, after
/// a checkpoint, and reopened.
fn from_all_sides(store: Store, check: impl Fn(&Store, &str)) {
    check(&store, "recent");
    let copy = crashed(&store);
    let recovered = Store::open(copy.path().join("a"), options()).unwrap();
    check(&recovered, "recovered");
    recovered.checkpoint().unwrap();
    check(&recovered, "recovered, then indexed");
    let reader = Store::open_read_only(store.path(), options()).unwrap();
    check(&reader, "read only");
    store.checkpoint().unwrap();
    check(&store, "indexed");
    reader.refresh().unwrap();
    check(&reader, "read only, indexed");
    let path = store.path().to_owned();
    store.close().unwrap();
    let store = Store::open(path, options()).unwrap();
    check(&store, "reopened");
    assert_eq!(store.verify().unwrap().problems, []);
}

#[test]
fn keys_of_any_bytes_and_lengths_come_back_byte_for_byte() {
    let temp = tempfile::tempdir().unwrap();
    let store = Store::create(temp.path().join("a"), options()).unwrap();
    let mut keys: Vec<Vec<u8>> = [
        &b"../.."[..],
        b"/etc/passwd",
        b"a\0b",
        b"\0",
        b"\0\0",
        b"a\0",
        b"CON",
        b"..",
        b".",
        b"\xff\xfe",
        b"\xc3(",
        b"LOCK",
        b"value0.dat",
        b"\n",
        b" ",
        b"FMVALUE\0",
    ]
    .map(<[u8]>::to_vec)
    .to_vec();
    // Around every length that a read guesses or a hash treats differently, and at the limit.
    let longest = Record::MAX_KEY_BYTES;
    let lengths = [1, 3, 4, 8, 9, 16, 17, 128, 129, 240, 241, 255, 256, 4095, 4096, longest - 1, longest];
    keys.extend(lengths.iter().map(|&length| vec![b'k'; length]));
    keys.extend(lengths.iter().map(|&length| [vec![0; length - 1], vec![1]].concat()));
    for (i, key) in keys.iter().enumerate() {
        store.put(&Record::new(key, &i.to_le_bytes())).unwrap();
    }
    for bad in [0, Record::MAX_KEY_BYTES + 1, 10 << 20] {
        let refused = store.put(&Record::new(&vec![b'k'; bad], b""));
        assert!(matches!(refused, Err(Error::KeyLength { len }) if len == bad));
        assert!(store.get(&vec![b'k'; bad]).map_or(true, |found| found.is_none()));
    }
    let mut sorted = keys.clone();
    sorted.sort();
    sorted.dedup();
    from_all_sides(store, |store, side| {
        for key in &sorted {
            let i = keys.iter().rposition(|k| k == key).unwrap();
            assert_eq!(store.get(key).unwrap().unwrap().body, i.to_le_bytes(), "{side}: {i}");
        }
        let mut listed: Vec<Vec<u8>> = store.keys().map(Result::unwrap).collect();
        listed.sort();
        assert!(listed == sorted, "{side}");
    });
}

#[test]
fn a_hundred_thousand_keys_that_share_a_long_prefix_are_told_apart() {
    const KEYS: u32 = 100_000;
    let temp = tempfile::tempdir().unwrap();
    let options = options().compression_level(0).segment_bytes(64 << 20);
    let store = Store::create(temp.path().join("a"), options).unwrap();
    let key = |n: u32| [&[b'p'; 500][..], &n.to_be_bytes()].concat();
    for n in 0..KEYS {
        store.put(&Record::new(&key(n), b"").time(i64::from(n))).unwrap();
    }
    store.checkpoint().unwrap();
    assert_eq!(store.stats().indexed_keys, u64::from(KEYS));
    for n in (0..KEYS).step_by(101) {
        assert_eq!(store.head(&key(n)).unwrap().unwrap().version.time_ms, i64::from(n));
    }
    assert!(store.head(&key(KEYS)).unwrap().is_none());
    assert_eq!(store.keys_with_prefix(&key(7)[..503]).count(), 256);
}

#[test]
fn values_and_meta_at_their_limits_come_back_and_beyond_are_refused() {
    let temp = tempfile::tempdir().unwrap();
    let store = Store::create(temp.path().join("a"), options()).unwrap();
    let mut x = 1u64;
    let mut noise = |bytes: usize| -> Vec<u8> {
        let next = |_| {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (x >> 56) as u8
        };
        (0..bytes).map(next).collect()
    };
    let sizes =
        [0, 1, 2, 63, 64, LARGE - 1, LARGE, LARGE + 1, 2 * LARGE, 2 * LARGE + 1, 1 << 20, (1 << 20) + 1, 3 << 20];
    let mut bodies: Vec<Vec<u8>> = sizes.iter().map(|&bytes| vec![b'z'; bytes]).collect();
    bodies.extend(sizes.iter().map(|&bytes| noise(bytes)));
    let longest = Record::MAX_META_BYTES;
    let metas: Vec<Vec<u8>> = [0, 1, longest - 1, longest].iter().map(|&bytes| noise(bytes)).collect();
    for (i, body) in bodies.iter().enumerate() {
        let meta = &metas[i % metas.len()];
        store.put(&Record { key: format!("{i}").as_bytes(), meta, body, time_ms: 1 }).unwrap();
    }
    let meta = vec![0; Record::MAX_META_BYTES + 1];
    assert!(matches!(store.put(&Record::new(b"k", b"").meta(&meta)), Err(Error::MetaTooLarge { .. })));
    from_all_sides(store, |store, side| {
        for (i, body) in bodies.iter().enumerate() {
            let value = store.get(format!("{i}").as_bytes()).unwrap().unwrap();
            assert!(value.body == *body && value.head.meta == metas[i % metas.len()], "{side}: {i}");
            assert_eq!(value.head.body_bytes, body.len() as u64);
        }
        assert!(store.get(b"k").unwrap().is_none());
    });
}

/// 1970, 2038, 2106, the first and the last possible moment, and their neighbours.
const TIMES: [i64; 14] = [
    0,
    -1,
    1,
    i64::MAX,
    2_147_483_648_000,
    4_294_967_296_000,
    4_294_967_295_999,
    i64::MIN,
    i64::MIN + 1,
    i64::MAX - 1,
    -62_135_596_800_000,
    253_402_300_800_000,
    1_700_000_000_000,
    i64::MAX,
];

#[test]
fn versions_are_in_order_of_time_then_of_putting_whatever_the_times() {
    let temp = tempfile::tempdir().unwrap();
    let store = Store::create(temp.path().join("a"), options()).unwrap();
    let mut put: Vec<(Version, usize)> = Vec::new();
    for (i, time_ms) in TIMES.iter().enumerate() {
        put.push((store.put(&Record::new(b"k", &i.to_le_bytes()).time(*time_ms)).unwrap(), i));
        // Each in a separate key, too.
        store.put(&Record::new(format!("alone {i}").as_bytes(), &i.to_le_bytes()).time(*time_ms)).unwrap();
        if i == TIMES.len() / 2 {
            store.checkpoint().unwrap();
        }
    }
    put.sort();
    put.reverse();
    from_all_sides(store, |store, side| {
        let history: Vec<Version> = store.history(b"k").unwrap().iter().map(|head| head.version).collect();
        assert_eq!(history, put.iter().map(|(version, _)| *version).collect::<Vec<_>>(), "{side}");
        assert_eq!(store.get(b"k").unwrap().unwrap().body, put[0].1.to_le_bytes(), "{side}");
        for time_ms in TIMES {
            let want = put.iter().find(|(version, _)| version.time_ms <= time_ms).unwrap();
            assert_eq!(store.get_at(b"k", time_ms).unwrap().unwrap().body, want.1.to_le_bytes(), "{side}: {time_ms}");
        }
        for (i, time_ms) in TIMES.iter().enumerate() {
            let head = store.head(format!("alone {i}").as_bytes()).unwrap().unwrap();
            assert_eq!(head.version.time_ms, *time_ms, "{side}");
        }
    });
}

#[test]
fn a_clock_that_is_set_back_hides_a_page_behind_the_later_one_and_a_removal_ends_that() {
    let temp = tempfile::tempdir().unwrap();
    let store = Store::create(temp.path().join("a"), options()).unwrap();
    for key in [b"kept", b"gone"] {
        store.put(&Record::new(key, b"future").time(i64::MAX)).unwrap();
        store.put(&Record::new(key, b"set back").time(1_000)).unwrap();
    }
    // A removal applies by the order of puts, not by the clock.
    assert!(store.remove(b"gone").unwrap());
    from_all_sides(store, |store, side| {
        assert_eq!(store.get(b"kept").unwrap().unwrap().body, b"future", "{side}");
        assert_eq!(store.get_at(b"kept", 2_000).unwrap().unwrap().body, b"set back", "{side}");
        assert!(store.get(b"gone").unwrap().is_none(), "{side}");
        assert!(store.get_at(b"gone", 2_000).unwrap().is_none(), "{side}");
        if !store.is_read_only() {
            store.put(&Record::new(b"gone", b"again").time(i64::MIN)).unwrap();
            assert_eq!(store.get(b"gone").unwrap().unwrap().body, b"again", "{side}");
            assert!(store.remove(b"gone").unwrap());
        }
    });
}
