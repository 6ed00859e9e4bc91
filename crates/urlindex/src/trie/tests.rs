//! The trie against an ordered set of texts; its queries, its file, crashes and damage.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use filemap_io::StorageError;
use filemap_io::sim::{Level, Loss, SimDisk};
use proptest::prelude::*;

use super::*;

fn url(rng: &mut fastrand::Rng) -> Vec<u8> {
    let host = rng.u32(..200);
    let path: String = (0..rng.usize(..4)).map(|_| format!("/{}", rng.u32(..40))).collect();
    format!("http{}://host{host}.example{path}", if rng.bool() { "s" } else { "" }).into_bytes()
}

#[test]
fn a_hundred_thousand_urls_are_there_in_order_and_no_others() {
    let mut rng = fastrand::Rng::with_seed(3);
    let (trie, mut expected) = (UrlTrie::new(), BTreeSet::new());
    for _ in 0..100_000 {
        let url = url(&mut rng);
        let is_new = expected.insert(url.clone());
        assert_eq!(trie.check_and_insert(&url).expect("inserted").is_new(), is_new);
    }
    assert_eq!(trie.len(), expected.len() as u64);
    assert!(trie.iter().eq(expected.iter().cloned()));
    for _ in 0..100_000 {
        let mut url = url(&mut rng);
        url.truncate(rng.usize(..=url.len()));
        assert_eq!(trie.contains(&url).expect("known") == Verdict::Seen, expected.contains(&url));
        if rng.u8(..100) == 0 {
            // A short prefix begins half of all URLs: only a few lists are read to their ends.
            let most = if rng.u8(..20) == 0 { usize::MAX } else { 2000 };
            let from = expected.range(url.clone()..).take_while(|u| u.starts_with(&url)).take(most);
            assert!(trie.prefix(&url).take(most).eq(from.cloned()), "{}", String::from_utf8_lossy(&url));
        }
    }
}

#[test]
fn a_prefix_of_a_url_that_is_there_is_new() {
    let trie = UrlTrie::new();
    trie.insert(b"http://example.com/abc").expect("inserted");
    for len in 1..22 {
        assert_eq!(trie.contains(&b"http://example.com/abc"[..len]).expect("known"), Verdict::New, "{len} bytes");
    }
    assert_eq!(trie.contains(b"http://example.com/abcd").expect("known"), Verdict::New);
    assert_eq!(trie.check_and_insert(b"http://example.com/ab").expect("inserted"), Verdict::New);
    assert_eq!(trie.check_and_insert(b"http://example.com/ab").expect("inserted"), Verdict::Seen);
}

#[test]
fn a_host_has_its_urls_and_no_others() {
    let trie = UrlTrie::new();
    let urls = [
        "http://a.com/",
        "http://a.com.b/",
        "http://a.com:81/x",
        "https://a.com/y",
        "http://a.co/",
        "http://a.com",
        "ftp://a.com/",
    ];
    urls.iter().for_each(|url| assert!(trie.insert(url.as_bytes()).is_ok()));
    let found: Vec<String> = trie.host(b"a.com").map(|url| String::from_utf8(url).expect("ASCII")).collect();
    assert_eq!(found, ["http://a.com", "http://a.com/", "http://a.com:81/x", "https://a.com/y"]);
}

#[test]
fn a_walk_ends_once_and_for_all() {
    let trie = UrlTrie::new();
    ["a", "ab", "b", "c"].iter().for_each(|url| assert!(trie.insert(url.as_bytes()).is_ok()));
    let mut walk = trie.prefix(b"a");
    assert_eq!((walk.next(), walk.next(), walk.next()), (Some(b"a".to_vec()), Some(b"ab".to_vec()), None));
    trie.insert(b"ac").expect("inserted");
    assert_eq!((walk.next(), walk.next()), (None, None));
    assert_eq!(UrlTrie::new().iter().next(), None);
}

#[test]
fn long_urls_are_taken_up_to_the_limit() {
    let trie = UrlTrie::new();
    for len in [1, 254, 255, 256, 5_000, 65_534, 65_535] {
        for last in [b'a', b'b', b'c'] {
            let mut url = vec![b'x'; len];
            url[len - 1] = last;
            assert_eq!(trie.check_and_insert(&url).expect("inserted"), Verdict::New, "{len}");
            assert_eq!(trie.check_and_insert(&url).expect("inserted"), Verdict::Seen, "{len}");
        }
    }
    assert_eq!(trie.iter().count(), 21);
    for len in [0, 65_536] {
        assert!(matches!(trie.insert(&vec![b'x'; len]), Err(Error::UrlLength { .. })));
    }
}

#[test]
fn of_concurrent_inserts_of_one_url_exactly_one_is_new() {
    let trie = UrlTrie::new();
    let url = |i: usize| format!("http://example.com/{i}").into_bytes();
    let new: usize = std::thread::scope(|scope| {
        let insert = || (0..5_000).filter(|&i| trie.check_and_insert(&url(i)).expect("inserted").is_new()).count();
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(insert)).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
    });
    assert_eq!((new, trie.len()), (5_000, 5_000));
}

fn filled(urls: u64) -> UrlTrie {
    let trie = UrlTrie::new();
    (0..urls).for_each(|i| assert!(trie.insert(format!("http://example.com/{}", i * 7919 % urls).as_bytes()).is_ok()));
    trie
}

#[test]
fn a_trie_is_loaded_as_it_was_saved() {
    let disk = SimDisk::new(1);
    for urls in [0, 1, 50_000] {
        let trie = filled(urls);
        assert_eq!(trie.save_in(&*disk.dir(), "trie").expect("saved"), urls);
        let loaded = UrlTrie::load_in(disk.dir(), "trie").expect("loaded");
        assert_eq!(loaded.len(), urls);
        assert!(loaded.iter().eq(trie.iter()));
        assert!(loaded.memory_bytes() <= trie.memory_bytes());
    }
}

#[test]
fn a_crash_while_saving_leaves_the_old_file_or_the_new() {
    let disk = SimDisk::new(1);
    filled(100).save_in(&*disk.dir(), "trie").expect("saved");
    let found = Arc::new(Mutex::new(BTreeSet::new()));
    let lens = Arc::clone(&found);
    disk.observe(Some(Box::new(move |snapshot| {
        for seed in 0..40 {
            let crashed = snapshot.crash(Level::Adversarial, Loss::ALL[seed as usize % 4], seed);
            let loaded = UrlTrie::load_in(crashed.dir(), "trie").expect("whole");
            lens.lock().expect("one thread").insert(loaded.len());
        }
    })));
    filled(200).save_in(&*disk.dir(), "trie").expect("saved");
    disk.observe(None);
    assert_eq!(*found.lock().expect("one thread"), BTreeSet::from([100, 200]));
}

#[test]
fn any_flipped_byte_of_the_file_is_found() {
    let disk = SimDisk::new(1);
    filled(50).save_in(&*disk.dir(), "trie").expect("saved");
    let whole = disk.bytes("trie").expect("the file");
    for at in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x20;
        disk.set_bytes("trie", &damaged);
        match UrlTrie::load_in(disk.dir(), "trie") {
            Err(Error::Storage(StorageError::Corrupt { file, offset, .. })) => {
                assert!(file == "trie" && offset <= whole.len() as u64, "byte {at}")
            }
            other => panic!("byte {at}: {other:?}"),
        }
    }
    for len in 0..whole.len() {
        disk.set_bytes("trie", &whole[..len]);
        assert!(
            matches!(UrlTrie::load_in(disk.dir(), "trie"), Err(Error::Storage(StorageError::Corrupt { .. }))),
            "{len} bytes"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_texts_are_a_set_in_order(texts in proptest::collection::vec("[ab]{1,6}|[a-c]{200,300}|\\PC{1,40}", 1..200)) {
        let (trie, mut expected) = (UrlTrie::new(), BTreeSet::new());
        for text in &texts {
            let is_new = expected.insert(text.clone().into_bytes());
            prop_assert_eq!(trie.check_and_insert(text.as_bytes()).expect("inserted").is_new(), is_new);
        }
        prop_assert!(trie.iter().eq(expected.into_iter()));
    }

    #[test]
    fn any_bytes_are_a_set_that_survives_its_file(
        keys in proptest::collection::vec(proptest::collection::vec(0u8..=255, 1..300), 1..60)
    ) {
        let (trie, mut expected) = (UrlTrie::new(), BTreeSet::new());
        for key in &keys {
            let is_new = expected.insert(key.clone());
            prop_assert_eq!(trie.check_and_insert(key).expect("inserted").is_new(), is_new);
        }
        let disk = SimDisk::new(1);
        trie.save_in(&*disk.dir(), "trie").expect("saved");
        prop_assert!(UrlTrie::load_in(disk.dir(), "trie").expect("loaded").iter().eq(expected.into_iter()));
    }
}

#[test]
fn a_trie_keeps_what_it_is_told_to_keep() {
    let mut rng = fastrand::Rng::with_seed(9);
    let (trie, mut expected) = (UrlTrie::new(), BTreeSet::new());
    for _ in 0..20_000 {
        let url = url(&mut rng);
        trie.insert(&url).expect("inserted");
        expected.insert(url);
    }
    let all = expected.len();
    let is_kept = |url: &[u8]| !url.len().is_multiple_of(3);
    let dropped = trie.retain(is_kept);
    expected.retain(|url| is_kept(url));
    assert_eq!((dropped as usize, trie.len() as usize), (all - expected.len(), expected.len()));
    assert!(trie.iter().eq(expected.iter().cloned()));
    assert_eq!(trie.retain(|_| true), 0);
    assert_eq!(trie.retain(|_| false), expected.len() as u64);
    assert!(trie.is_empty() && trie.check_and_insert(b"http://a/").expect("inserted").is_new());
}

/// Difficult texts: long ones that are alike, NULs, bytes that are not UTF-8, equal heads of eight
/// bytes.
fn hard_text(rng: &mut fastrand::Rng) -> Vec<u8> {
    let long = |rng: &mut fastrand::Rng, byte: u8| vec![byte; [7, 8, 9, 254, 255, 256, 300, 4_000][rng.usize(..8)]];
    let mut text = match rng.usize(..7) {
        0 => vec![0; rng.usize(1..30)],
        1 => long(rng, b'a'),
        2 => long(rng, 0),
        3 => b"http://all-alike.example/".repeat(rng.usize(1..4)),
        4 => vec![rng.u8(254..); rng.usize(1..20)],
        5 => url(rng),
        _ => (0..rng.usize(1..6)).map(|_| rng.u8(..)).collect(),
    };
    text.extend((0..rng.usize(..4)).map(|_| [0, 1, b'a', b'b', 255][rng.usize(..5)]));
    text
}

#[test]
fn any_operations_on_hard_texts_do_what_they_do_to_an_ordered_set() {
    let mut rng = fastrand::Rng::with_seed(12);
    for round in 0..6 {
        let (mut trie, mut model) = (UrlTrie::new(), BTreeSet::new());
        for _ in 0..1_500 {
            let texts: Vec<Vec<u8>> = (0..rng.usize(1..20)).map(|_| hard_text(&mut rng)).collect();
            let urls: Vec<&[u8]> = texts.iter().map(|text| &text[..]).collect();
            let mut verdicts = vec![Verdict::ProbablySeen];
            match rng.usize(..20) {
                0..8 => {
                    trie.check_and_insert_batch(&urls, &mut verdicts).expect("inserted");
                    let expected = texts.iter().map(|text| model.insert(text.clone()));
                    assert!(verdicts.iter().map(|verdict| verdict.is_new()).eq(expected));
                }
                8..14 => {
                    for text in &texts {
                        let is_new = trie.check_and_insert(text).expect("inserted").is_new();
                        assert_eq!(is_new, model.insert(text.clone()));
                    }
                }
                14..19 => {
                    trie.contains_batch(&urls, &mut verdicts).expect("known");
                    let expected = texts.iter().map(|text| !model.contains(text));
                    assert!(verdicts.iter().map(|verdict| verdict.is_new()).eq(expected));
                }
                _ => {
                    let prefix = &texts[0][..rng.usize(..=texts[0].len())];
                    let expected = model.range(prefix.to_vec()..).take_while(|text| text.starts_with(prefix));
                    assert!(trie.prefix(prefix).eq(expected.cloned()));
                }
            }
            if round == 5 && rng.u8(..) == 0 {
                trie.retain(|text| text.len() % 3 > 0);
                model.retain(|text| text.len() % 3 > 0);
                let disk = SimDisk::new(1);
                trie.save_in(&*disk.dir(), "trie").expect("saved");
                trie = UrlTrie::load_in(disk.dir(), "trie").expect("loaded");
            }
        }
        assert_eq!(trie.len(), model.len() as u64);
        assert!(trie.iter().eq(model));
    }
}

#[test]
fn urls_of_the_greatest_length_that_are_alike_but_for_one_byte_are_a_set() {
    let (trie, mut expected) = (UrlTrie::new(), BTreeSet::new());
    let mut rng = fastrand::Rng::with_seed(13);
    for _ in 0..300 {
        let mut url = vec![[0, b'x', 255][rng.usize(..3)]; if rng.bool() { 65_535 } else { rng.usize(60_000..65_535) }];
        let at = rng.usize(..url.len());
        url[at] = rng.u8(..);
        assert_eq!(trie.contains(&url).expect("known").is_new(), !expected.contains(&url));
        let is_new = trie.check_and_insert(&url).expect("inserted").is_new();
        assert_eq!(is_new, expected.insert(url));
    }
    assert!(trie.iter().eq(expected));
}

#[test]
fn urls_in_order_in_reverse_and_from_the_middle_make_a_trie_of_about_the_same_size() {
    let urls: Vec<String> = (0..40_000).map(|i| format!("http://example.com/{:07}/page", i * 13)).collect();
    let bytes = |urls: &mut dyn Iterator<Item = &String>| {
        let trie = UrlTrie::new();
        urls.for_each(|url| assert!(trie.insert(url.as_bytes()).is_ok()));
        assert_eq!(trie.len(), 40_000);
        assert!(trie.iter().is_sorted());
        trie.memory_bytes()
    };
    let mut random: Vec<&String> = urls.iter().collect();
    fastrand::Rng::with_seed(1).shuffle(&mut random);
    let (up, down, any) = (bytes(&mut urls.iter()), bytes(&mut urls.iter().rev()), bytes(&mut random.into_iter()));
    assert!(up <= any && down <= 2 * any, "{up} in order, {down} in reverse, {any} in any");
}

#[test]
fn a_batch_with_a_bad_url_takes_those_before_it() {
    let (trie, mut verdicts) = (UrlTrie::new(), Vec::new());
    let long = vec![b'x'; 65_536];
    let urls: Vec<&[u8]> = vec![b"a", b"b", b"a", &long, b"c"];
    assert!(matches!(trie.check_and_insert_batch(&urls, &mut verdicts), Err(Error::UrlLength { len: 65_536, .. })));
    assert_eq!(verdicts, [Verdict::New, Verdict::New, Verdict::Seen]);
    assert_eq!((trie.len(), trie.stats().inserted, trie.changes()), (2, 2, 2));
}

#[test]
fn of_concurrent_batches_of_one_url_exactly_one_is_new() {
    let trie = UrlTrie::new();
    let texts: Vec<Vec<u8>> = (0..5_000).map(|i| format!("http://example.com/{i}").into_bytes()).collect();
    let new: usize = std::thread::scope(|scope| {
        let insert = |step: usize| {
            let mut urls: Vec<&[u8]> = texts.iter().map(|text| &text[..]).collect();
            urls.rotate_left(step * 700);
            let (mut verdicts, mut new) = (Vec::new(), 0);
            for part in urls.chunks(300 + step) {
                trie.check_and_insert_batch(part, &mut verdicts).expect("inserted");
                new += verdicts.iter().filter(|verdict| verdict.is_new()).count();
            }
            new
        };
        let threads: Vec<_> = (0..4).map(|step| scope.spawn(move || insert(step))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
    });
    assert_eq!((new, trie.len()), (5_000, 5_000));
}
