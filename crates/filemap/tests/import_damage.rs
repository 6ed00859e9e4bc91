//! Damaged WARC files: every record that is still whole is found, the damage is reported with its
//! offset, nothing panics.

use crate::samples::{bytes, fresh, gz, ids, page, plain, read, run, zst};
use std::collections::BTreeSet;
use std::io::Read;

use filemap::import::ImportOptions;
use filemap::warc::{Problem, ProblemKind};
use proptest::prelude::*;

/// Three records, each a member.
fn members(pack: impl Fn(&[u8]) -> Vec<u8>) -> [Vec<u8>; 3] {
    let texts = ["first ".repeat(50), "second ".repeat(50), "third ".repeat(50)];
    ["a", "b", "c"].map(|name| pack(&page(name, &texts[usize::from(name.as_bytes()[0] - b'a')])))
}

fn found(file: &[u8]) -> (Vec<String>, Vec<Problem>) {
    (ids(file), read(file).1)
}

/// The ids of whole records.
fn whole_ids(file: &[u8]) -> Vec<String> {
    let (records, _) = read(file);
    let whole = records.iter().filter(|record| record.header.text("WARC-Truncated").is_none());
    whole.filter_map(|record| record.header.text("WARC-Record-ID")).map(str::to_owned).collect()
}

fn blocks(file: &[u8]) -> Vec<Vec<u8>> {
    let block = |record: &mut filemap::warc::Record| {
        let mut out = Vec::new();
        record.block().expect("memory").read_to_end(&mut out).expect("memory");
        out
    };
    read(file).0.iter_mut().map(block).collect()
}

#[test]
fn a_file_cut_anywhere_gives_its_whole_records() {
    for pack in [gz as fn(&[u8]) -> Vec<u8>, |bytes| zst(bytes, b""), <[u8]>::to_vec] {
        let members = members(pack);
        let file = members.concat();
        let ends = [members[0].len(), members[0].len() + members[1].len(), file.len()];
        // Behind a record stand the two line ends (plain) or the checksum (gzip, zstd), which it
        // does not need.
        let slack = [8, 4, 4][usize::from(file.starts_with(b"WARC")) * 2 + usize::from(file[0] == 0x28)];
        for cut in 0..file.len() {
            let (ids, problems) = (whole_ids(&file[..cut]), found(&file[..cut]).1);
            let at_least = ends.iter().filter(|&&end| end <= cut).count();
            let at_most = ends.iter().filter(|&&end| end <= cut + slack).count();
            assert!((at_least..=at_most).contains(&ids.len()), "cut at {cut}: {ids:?}");
            let is_boundary = cut > 0 && ids.len() == at_least && ends.contains(&cut);
            let only_line_ends = file.starts_with(b"WARC") && ids.len() > at_least;
            assert_eq!(problems.is_empty(), is_boundary || only_line_ends, "cut at {cut}: {problems:?}");
            let inside = problems.iter().all(|problem| problem.place.offset <= cut as u64);
            assert!(inside && problems.len() <= 1, "cut at {cut}: {problems:?}");
        }
    }
}

#[test]
fn a_flipped_byte_costs_the_member_it_is_in_and_no_other() {
    for pack in [gz as fn(&[u8]) -> Vec<u8>, |bytes| zst(bytes, b"")] {
        let members = members(pack);
        let file = members.concat();
        let expected = blocks(&file);
        let (from, to) = (members[0].len(), members[0].len() + members[1].len());
        for at in from..to {
            for bit in 0..8 {
                let mut damaged = file.clone();
                damaged[at] ^= 1 << bit;
                let (ids, problems) = found(&damaged);
                let whole: BTreeSet<&str> = ids.iter().map(String::as_str).collect();
                assert!(
                    whole.contains("<urn:a>") && whole.contains("<urn:c>"),
                    "byte {at} bit {bit}: {ids:?} {problems:?}"
                );
                assert!(problems.len() <= 2, "byte {at} bit {bit}: {problems:?}");
                // Bits that mean nothing (a time, a window size, fillers) change nothing.
                let unchanged = ids.len() == 3 && blocks(&damaged) == expected;
                assert!(unchanged || !problems.is_empty(), "byte {at} bit {bit}: lost without a word");
                let near = |problem: &Problem| (from as u64..=to as u64).contains(&problem.place.offset);
                assert!(problems.iter().all(near), "byte {at} bit {bit}: {problems:?}");
            }
        }
    }
}

#[test]
fn a_flipped_byte_of_a_plain_file_costs_one_record_at_most() {
    let file = bytes("example.warc");
    let all = ids(&file);
    assert_eq!(all.len(), 6);
    for at in 0..file.len() {
        let mut damaged = file.clone();
        damaged[at] ^= 0x10;
        let (records, problems) = read(&damaged);
        assert!(records.len() >= 5, "byte {at}: {} records, {problems:?}", records.len());
        assert!(records.len() == 6 || !problems.is_empty(), "byte {at}: lost without a word");
        assert!(problems.len() <= 2, "byte {at}: {problems:?}");
    }
}

#[test]
fn lost_and_added_bytes_of_a_plain_file_cost_one_record_at_most() {
    let file = bytes("example.warc");
    for at in (0..file.len() - 4).step_by(7) {
        for (what, damaged) in [
            ("lost", [&file[..at], &file[at + 3..]].concat()),
            ("added", [&file[..at], b"\0garbage\xff", &file[at..]].concat()),
        ] {
            let (records, problems) = read(&damaged);
            // Bytes lost over the border of two records damage both.
            assert!(records.len() >= 4, "{what} at {at}: {} records, {problems:?}", records.len());
            assert!(records.len() == 6 || !problems.is_empty(), "{what} at {at}: lost without a word");
        }
    }
}

#[test]
fn garbage_between_members_is_skipped_and_told() {
    for pack in [gz as fn(&[u8]) -> Vec<u8>, |bytes| zst(bytes, b""), <[u8]>::to_vec] {
        let [a, b, c] = members(pack);
        for garbage in [
            &b"garbage"[..],
            &[0; 5000],
            b"\x1f\x8b\x08\0 no gzip",
            b"\x28\xb5\x2f\xfd no zstd",
            b"WARC/1.0 no",
            b"WARC/1.0\r\nno",
            b"WARC/1.0\r\nA: b\r\n\r\n",
        ] {
            let file = [&a[..], garbage, &b, garbage, &c].concat();
            let (ids, problems) = found(&file);
            assert_eq!(ids, ["<urn:a>", "<urn:b>", "<urn:c>"], "{garbage:?}: {problems:?}");
            let offsets: BTreeSet<u64> = problems.iter().map(|problem| problem.place.offset).collect();
            let expected = [a.len() as u64, (a.len() + garbage.len() + b.len()) as u64];
            assert!(expected.iter().all(|at| offsets.contains(at)), "{garbage:?}: {problems:?}");
            assert!(problems.iter().all(|problem| problem.kind == ProblemKind::Damage));
        }
    }
}

#[test]
fn garbage_before_the_first_record_is_told() {
    for pack in [gz as fn(&[u8]) -> Vec<u8>, <[u8]>::to_vec] {
        let file = [b"#!/bin/sh\n".to_vec(), members(pack).concat()].concat();
        let (ids, problems) = found(&file);
        assert_eq!((ids.len(), problems.len(), problems[0].place.offset), (3, 1, 0), "{problems:?}");
    }
}

#[test]
fn a_wrong_length_costs_its_record_only() {
    let right = page("b", &"x".repeat(100));
    let text = String::from_utf8(right).expect("text");
    let length =
        text.split("Content-Length: ").nth(1).and_then(|rest| rest.split("\r\n").next()).expect("there").to_owned();
    for wrong in ["1", "99", "200", "5000", "99999999999", "-1", "", "x"] {
        let middle = text.replacen(&format!("Content-Length: {length}"), &format!("Content-Length: {wrong}"), 1);
        for pack in [gz as fn(&[u8]) -> Vec<u8>, <[u8]>::to_vec] {
            let file = [pack(&page("a", "1")), pack(middle.as_bytes()), pack(&page("c", "3"))].concat();
            let (ids, problems) = found(&file);
            assert_eq!(ids, ["<urn:a>", "<urn:c>"], "length {wrong:?}: {problems:?}");
            assert_eq!(problems.len(), 1, "length {wrong:?}: {problems:?}");
            assert_eq!(problems[0].place.offset, pack(&page("a", "1")).len() as u64, "{problems:?}");
        }
    }
}

#[test]
fn one_member_for_all_gives_what_comes_before_the_damage() {
    let all = (0..200).flat_map(|at| page(&format!("p{at}"), &format!("{at} ").repeat(at))).collect::<Vec<u8>>();
    let mut file = gz(&all);
    let middle = file.len() / 2;
    file[middle..middle + 20].fill(0xff);
    let (ids, problems) = found(&[file, gz(&page("after", "x"))].concat());
    assert!(ids.len() > 50 && ids.last().is_some_and(|id| id == "<urn:after>"), "{} records", ids.len());
    assert!(!problems.is_empty());
}

#[test]
fn a_damaged_dictionary_is_told_and_what_needs_none_is_read() {
    let dictionary = page("words", &"some words that come again and again ".repeat(20));
    let frame =
        |content: &[u8]| [&[0x5d, 0x2a, 0x4d, 0x18][..], &(content.len() as u32).to_le_bytes(), content].concat();
    let mut packed = zst(&dictionary, b"");
    let last = packed.len() - 1;
    packed[last] ^= 1;
    let file = [frame(&packed), zst(&page("a", "1"), &dictionary), zst(&page("b", "2"), b"")].concat();
    let (ids, problems) = found(&file);
    assert!(ids.contains(&"<urn:b>".to_owned()), "{ids:?}");
    assert!(problems[0].what.contains("dictionary"), "{problems:?}");
}

#[test]
fn damage_to_a_frame_that_is_to_be_skipped_costs_no_record() {
    let frame = [&[0x5c, 0x2a, 0x4d, 0x18, 40, 0, 0, 0][..], &[7; 40]].concat();
    for pack in [gz as fn(&[u8]) -> Vec<u8>, |bytes| zst(bytes, b"")] {
        let [a, b, c] = members(pack);
        let file = [&a[..], &frame, &b, &c, &frame].concat();
        let is_told = |problems: &[Problem], from: usize| {
            let places: Vec<u64> = problems.iter().map(|problem| problem.place.offset).collect();
            assert!(places.is_empty() || places == [from as u64], "{problems:?}");
            !places.is_empty()
        };
        assert_eq!((found(&file).0.len(), found(&file).1.len()), (3, 0));
        for at in a.len()..a.len() + frame.len() {
            for bit in 0..8 {
                let mut damaged = file.clone();
                damaged[at] ^= 1 << bit;
                let (ids, problems) = found(&damaged);
                assert_eq!(ids, ["<urn:a>", "<urn:b>", "<urn:c>"], "byte {at} bit {bit}: {problems:?}");
                // Its other numbers mean the same, and its content means nothing.
                let means_nothing = at == a.len() && bit < 4 || at >= a.len() + 8;
                assert_eq!(is_told(&problems, a.len()), !means_nothing, "byte {at} bit {bit}: {problems:?}");
            }
        }
        let last = file.len() - frame.len();
        for cut in last + 1..file.len() {
            let (ids, problems) = found(&file[..cut]);
            assert!(ids.len() == 3 && is_told(&problems, last), "cut at {cut}: {ids:?} {problems:?}");
        }
    }
}

#[test]
fn what_is_no_warc_file_at_all_is_told() {
    let cases: [(&str, Vec<u8>); 6] = [
        ("empty", Vec::new()),
        ("text", b"hello world\n".repeat(1000)),
        ("zeros", vec![0; 100_000]),
        ("gzip of text", gz(b"hello world")),
        ("zstd of text", zst(b"hello world", b"")),
        ("half a magic", b"WAR".to_vec()),
    ];
    for (name, file) in cases {
        let fresh = fresh();
        let report = run(&fresh.store, &file, &ImportOptions::new());
        assert_eq!((report.records, report.stored, report.damaged), (0, 0, 1), "{name}: {report:?}");
        assert_eq!(report.problems[0].place.offset, 0, "{name}");
        assert!(report.is_damaged());
    }
}

#[test]
fn damage_told_by_the_import_names_the_file() {
    let fresh = fresh();
    let report = run(&fresh.store, &members(gz).concat()[..300], &ImportOptions::new());
    assert!(report.problems[0].to_string().starts_with("test.warc: offset "), "{}", report.problems[0]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_bytes_are_read_to_their_end(file in proptest::collection::vec(any::<u8>(), 0..2000)) {
        let _ = read(&file);
    }

    #[test]
    fn any_bytes_behind_a_magic_are_read_to_their_end(
        magic in prop_oneof![
            Just(&b"\x1f\x8b\x08\0\0\0\0\0\0\x03"[..]), Just(&b"\x28\xb5\x2f\xfd"[..]), Just(&b"\x5d\x2a\x4d\x18"[..]),
            Just(&b"\x5c\x2a\x4d\x18"[..]), Just(&b"\x50\x2a\x4d\x18\x09\0\0\0"[..]), Just(&b"WARC/1.0\r\n"[..]), Just(&b"WARC/1.0\r\nContent-Length: 5\r\n\r\n"[..])
        ],
        file in proptest::collection::vec(any::<u8>(), 0..500),
    ) {
        let _ = read(&[magic, &file, magic, &file].concat());
    }

    #[test]
    fn a_damaged_file_is_read_to_its_end(
        at in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20),
        form in 0..3usize,
    ) {
        let all = plain("example.warc.gz");
        let mut file = match form {
            0 => bytes("example.warc.gz"),
            1 => zst(&all, b""),
            _ => all,
        };
        for (index, value) in at {
            let at = index.index(file.len());
            file[at] = value;
        }
        let (records, problems) = read(&file);
        prop_assert!(records.len() == 6 || !problems.is_empty());
    }
}
