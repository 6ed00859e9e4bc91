//! WACZ files out and in: what stands in them, that they give an equal store, and what damaged and
//! hostile ones cost.

use std::collections::BTreeMap;
use std::io::{Cursor, Read, Write};
use std::ops::ControlFlow;

use crate::samples::{Fresh, fresh, gz, page, run_sample};
use crate::stores::assert_equal;
use filemap::PageStore;
use filemap::dump::{DumpOptions, Format, Wacz, dump};
use filemap::import::{ImportOptions, ImportReport, import_wacz, is_zip};
use filemap::page::RecordKind;
use serde_json::Value;
use sha2::{Digest, Sha256};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

fn wacz(store: &PageStore, roll_bytes: u64) -> Vec<u8> {
    let options = DumpOptions::new("x", &[Format::Warc, Format::Cdxj, Format::Pages]).roll_bytes(Some(roll_bytes));
    let mut target = Wacz::new(Cursor::new(Vec::new()));
    let report = dump(store, &options, &mut target, &mut |_| ControlFlow::Continue(())).expect("memory");
    target.finish(&report).expect("memory").into_inner()
}

fn imported(file: &[u8]) -> (Fresh, ImportReport) {
    let to = fresh();
    let report =
        import_wacz(&to.store, "x.wacz", Cursor::new(file), &ImportOptions::new(), &mut |_| ControlFlow::Continue(()));
    (to, report.expect("the store is fine"))
}

/// Content of a zip file, by name.
fn entries(file: &[u8]) -> BTreeMap<String, Vec<u8>> {
    let mut zip = ZipArchive::new(Cursor::new(file)).expect("a zip file");
    let mut entries = BTreeMap::new();
    for at in 0..zip.len() {
        let mut entry = zip.by_index(at).expect("an entry");
        let name = entry.name().expect("a name").into_owned();
        let method = if name.starts_with("archive/") { CompressionMethod::Stored } else { CompressionMethod::Deflated };
        assert_eq!(entry.compression(), method, "{name}");
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).expect("whole");
        entries.insert(name, bytes);
    }
    entries
}

fn zip_of(files: &[(&str, &[u8])], method: CompressionMethod) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in files {
        zip.start_file(*name, SimpleFileOptions::default().compression_method(method)).expect("memory");
        zip.write_all(bytes).expect("memory");
    }
    zip.finish().expect("memory").into_inner()
}

fn samples() -> Fresh {
    let from = fresh();
    for name in ["IAH-urls-wget.warc.gz", "cc.warc.gz", "example.warc.gz", "python-docs.warc.gz"] {
        run_sample(&from.store, name, &ImportOptions::new().keep(RecordKind::Request));
    }
    from
}

#[test]
fn a_wacz_file_has_all_that_players_need_and_gives_an_equal_store() {
    let from = samples();
    let file = wacz(&from.store, 300_000);
    assert!(is_zip(&file) && wacz(&from.store, 300_000) == file, "the same again");
    let entries = entries(&file);
    let package: Value = serde_json::from_slice(&entries["datapackage.json"]).expect("JSON");
    assert_eq!((&package["profile"], &package["wacz_version"]), (&"data-package".into(), &"1.1.1".into()));
    let resources = package["resources"].as_array().expect("a list");
    assert_eq!(resources.len() + 2, entries.len());
    for resource in resources {
        let bytes = &entries[resource["path"].as_str().expect("a path")];
        let hash: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!((&resource["hash"], &resource["bytes"]), (&format!("sha256:{hash}").into(), &bytes.len().into()));
    }
    let digest: Value = serde_json::from_slice(&entries["datapackage-digest.json"]).expect("JSON");
    let hash: String = Sha256::digest(&entries["datapackage.json"]).iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(digest["hash"], format!("sha256:{hash}"));

    let mut captures = 0;
    for line in entries["indexes/index.cdxj"].split_inclusive(|&byte| byte == b'\n') {
        let json = &line[line.iter().position(|&byte| byte == b'{').expect("JSON")..];
        let fields: Value = serde_json::from_slice(json).expect("JSON");
        let number = |name: &str| fields[name].as_str().and_then(|text| text.parse::<usize>().ok()).expect("a number");
        let warc = &entries[&format!("archive/{}", fields["filename"].as_str().expect("a name"))];
        let member = &warc[number("offset")..number("offset") + number("length")];
        let mut record = String::new();
        let _ = flate2::read::GzDecoder::new(member).take(400).read_to_string(&mut record);
        assert!(record.contains(fields["url"].as_str().expect("a URL")), "{fields}");
        captures += 1;
    }
    assert!(captures > 80 && entries.keys().filter(|name| name.starts_with("archive/")).count() > 1);

    let pages = String::from_utf8(entries["pages/pages.jsonl"].clone()).expect("text");
    let lines: Vec<Value> = pages.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(lines[0]["format"], "json-pages-1.0");
    assert!(lines[1..].iter().any(|line| line["url"] == "http://example.com/" && line["ts"] == "2017-03-06T04:02:06Z"));

    let (to, report) = imported(&file);
    assert_eq!((report.damaged, report.unusable), (0, 0), "{:?}", report.problems);
    assert_equal(&to.store, &from.store);
}

#[test]
fn an_empty_store_gives_a_wacz_file_without_pages() {
    let file = wacz(&fresh().store, 1 << 30);
    assert_eq!(entries(&file)["pages/pages.jsonl"].iter().filter(|&&byte| byte == b'\n').count(), 1);
}

#[test]
fn warc_files_in_the_archive_are_taken_in_stored_and_deflated_and_nothing_else_is() {
    for method in [CompressionMethod::Stored, CompressionMethod::Deflated] {
        let files: [(&str, &[u8]); 5] = [
            ("archive/a.warc.gz", &gz(&page("a", "text of a"))),
            ("archive/b.warc", &page("b", "text of b")),
            ("pages/pages.jsonl", b"{}"),
            ("elsewhere/c.warc", &page("c", "no")),
            ("datapackage.json", b"{}"),
        ];
        let (to, report) = imported(&zip_of(&files, method));
        assert_eq!((report.stored, report.damaged, report.unusable), (2, 0, 1), "{:?}", report.problems);
        assert_eq!(report.problems[0].file, "x.wacz: elsewhere/c.warc");
        assert_eq!(to.store.get("http://example.com/b").expect("readable").expect("stored").body, b"text of b");
    }
}

#[test]
fn archives_under_odd_names_are_taken_in_and_those_in_other_folders_are_named() {
    let (a, b, c, d) = (page("a", "a"), page("b", "b"), page("c", "c"), page("d", "d"));
    let files: [(&str, &[u8]); 8] = [
        ("./archive/a.warc", &a),
        ("archive\\b.warc", &b),
        ("Archive/c.WARC.gz", &c),
        ("coll/archive/d.warc", &d),
        ("coll/", b""),
        ("inner.wacz", b"PK"),
        ("indexes/index.cdx.gz", b"no archive"),
        ("pages/pages.jsonl", b"{}"),
    ];
    let (to, report) = imported(&zip_of(&files, CompressionMethod::Stored));
    let is_there = |url: &str| to.store.contains(url).expect("readable");
    assert!(is_there("http://example.com/a") && is_there("http://example.com/b"));
    assert_eq!((report.stored, report.damaged, report.unusable), (2, 0, 3), "{:?}", report.problems);
    let told: Vec<_> = report.problems.iter().map(|problem| problem.file.as_str()).collect();
    assert_eq!(told, ["x.wacz: Archive/c.WARC.gz", "x.wacz: coll/archive/d.warc", "x.wacz: inner.wacz"]);
}

#[test]
fn an_entry_in_a_form_that_is_not_read_is_named_and_the_others_are_taken() {
    for (magic, words) in [(&b"\xfd7zXZ\0\0\x04"[..], "xz -dc"), (b"BZh91AY&SY", "bzip2 -dc")] {
        let packed = [magic, &[7; 100]].concat();
        let files: [(&str, &[u8]); 3] = [
            ("archive/a.warc.gz", &gz(&page("a", "text of a"))),
            ("archive/b.warc.xz", &packed),
            ("archive/c.warc", &page("c", "text of c")),
        ];
        let (to, report) = imported(&zip_of(&files, CompressionMethod::Stored));
        assert_eq!((report.stored, report.damaged, report.unusable), (2, 0, 1), "{:?}", report.problems);
        assert_eq!(report.problems[0].file, "x.wacz: archive/b.warc.xz");
        assert!(report.problems[0].what.contains(words), "{:?}", report.problems);
        assert!(to.store.contains("http://example.com/c").expect("readable"));
    }
}

#[test]
fn damage_in_a_wacz_file_is_told_and_costs_what_it_hits() {
    let members: Vec<Vec<u8>> = (0..20).map(|nth| gz(&page(&nth.to_string(), &"words ".repeat(200)))).collect();
    let warc = members.concat();
    let file = zip_of(&[("archive/a.warc.gz", &warc), ("archive/b.warc", &page("b", "b"))], CompressionMethod::Stored);
    // Inside the data of the tenth member, behind its header.
    let at = file.windows(200).position(|window| window == &warc[..200]).expect("stored as it is");
    let at = at + members[..9].concat().len() + 40;
    let mut flipped = file.clone();
    flipped[at..at + 4].iter_mut().for_each(|byte| *byte ^= 0xff);
    let (to, report) = imported(&flipped);
    assert_eq!(report.stored, 20, "one of 21 is damaged: {:?}", report.problems);
    assert!(
        report.damaged >= 2
            && report.problems.iter().any(|problem| problem.what.contains("zip entry: checksum mismatch"))
    );
    assert!(report.problems.iter().all(|problem| problem.file == "x.wacz: archive/a.warc.gz"));
    assert!(to.store.contains("http://example.com/b").expect("readable"));
    for cut in (0..file.len()).step_by(97) {
        let (_, report) = imported(&file[..cut]);
        // Without the list, the entries' own headers are read.
        assert!(report.damaged > 0 && report.stored <= 21, "cut at {cut}");
        assert!(cut < file.len() - 200 || report.stored == 21, "cut at {cut}: {:?}", report.problems);
    }
    for at in (0..file.len()).step_by(5) {
        let mut flipped = file.clone();
        flipped[at] ^= 0x41;
        let _ = imported_into_nothing(&flipped);
    }
}

/// An import that is stopped before its first record: the zip file is read, and nothing is stored.
fn imported_into_nothing(file: &[u8]) -> ImportReport {
    use std::sync::OnceLock;
    static STORE: OnceLock<Fresh> = OnceLock::new();
    let options = ImportOptions::new();
    let store = &STORE.get_or_init(fresh).store;
    import_wacz(store, "x.wacz", Cursor::new(file), &options, &mut |_| ControlFlow::Break(()))
        .expect("damage is not an error")
}

#[test]
fn a_zip_file_that_is_no_wacz_or_means_harm_is_a_problem() {
    let (_, report) = imported(&zip_of(&[("a.warc", &page("a", "a"))], CompressionMethod::Stored));
    assert_eq!((report.stored, report.unusable), (0, 2));
    assert!(report.problems[1].what.contains("not a WACZ"), "{:?}", report.problems);

    // Two entries over the same bytes.
    let two =
        zip_of(&[("archive/a.warc", &page("a", "a")), ("archive/b.warc", &page("b", "b"))], CompressionMethod::Stored);
    let list = two.windows(4).rposition(|window| window == b"PK\x01\x02").expect("a list");
    let mut overlapping = two.clone();
    overlapping[list + 42..list + 46].copy_from_slice(&[0; 4]);
    let (_, report) = imported(&overlapping);
    // No byte is read twice, and the second entry is found by its own header.
    assert!(report.stored == 2 && report.damaged > 0, "{:?}", report.problems);

    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for nth in 0..60_000 {
        let name = format!("archive/{nth:090}");
        zip.start_file(name, SimpleFileOptions::default().compression_method(CompressionMethod::Stored))
            .expect("memory");
    }
    let many = zip.finish().expect("memory").into_inner();
    let (_, report) = imported(&many);
    assert_eq!((report.stored, report.damaged), (0, 1));
    assert!(report.problems[0].what.contains("too long"), "{:?}", report.problems);
}

#[test]
fn a_file_that_cannot_be_read_is_an_error_and_not_damage() {
    struct Failing(Cursor<Vec<u8>>);
    impl Read for Failing {
        fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
            let count = self.0.read(out)?;
            // The list at the end can be read, the entries cannot.
            let list = self.0.get_ref().len() as u64 - 300;
            if self.0.position() < list { Err(std::io::Error::other("a bad sector")) } else { Ok(count) }
        }
    }
    impl std::io::Seek for Failing {
        fn seek(&mut self, to: std::io::SeekFrom) -> std::io::Result<u64> {
            self.0.seek(to)
        }
    }
    let file = zip_of(&[("archive/a.warc", &page("a", &"a".repeat(100_000)))], CompressionMethod::Stored);
    let to = fresh();
    let report = import_wacz(&to.store, "x.wacz", Failing(Cursor::new(file)), &ImportOptions::new(), &mut |_| {
        ControlFlow::Continue(())
    });
    assert!(report.expect_err("no bytes").to_string().contains("a bad sector"));
}

/// Imports into a store that has been used before: number of pages known before, and the report.
fn met(to: &Fresh, file: &[u8]) -> (u64, ImportReport) {
    let report =
        import_wacz(&to.store, "x.wacz", Cursor::new(file), &ImportOptions::new(), &mut |_| ControlFlow::Continue(()));
    let report = report.expect("the store is fine");
    (report.stored + report.already_there, report)
}

#[test]
fn every_flipped_bit_of_a_header_is_told_or_costs_nothing() {
    let (a, b) = (page("a", "text of a"), gz(&page("b", "text of b")));
    for method in [CompressionMethod::Stored, CompressionMethod::Deflated] {
        let file = zip_of(&[("archive/a.warc", &a), ("archive/b.warc.gz", &b), ("pages/pages.jsonl", b"{}")], method);
        let to = fresh();
        assert_eq!((met(&to, &file).0, met(&to, &file).1.losses()), (2, 0));
        let mut told = 0;
        for at in 0..file.len() {
            let mut flipped = file.clone();
            flipped[at] ^= 1 << (at % 8);
            let (pages, report) = met(&to, &flipped);
            // At the least the date of a file, which is not read, may be another.
            assert!(report.losses() > 0 || pages == 2 && report.already_there == 2, "{at}: {report:?}");
            assert!(report.stored == 0 || report.losses() > 0, "{at}: {report:?}");
            told += u64::from(report.losses() > 0);
        }
        assert!(told > file.len() as u64 / 2, "{told} of {}", file.len());
        // A list that names one entry less, or nothing.
        let end = file.len() - 22;
        for at in [8, 10] {
            let mut fewer = file.clone();
            fewer[end + at] -= 1;
            let (pages, report) = met(&to, &fewer);
            assert!(pages == 2 && (at == 8 || report.damaged > 0), "{:?}", report.problems);
        }
        for (magic, entries) in [(b"PK\x01\x02", 3), (b"PK\x03\x04", 3), (b"PK\x05\x06", 1)] {
            for nth in 0..entries {
                let mut lost = file.clone();
                let at = memchr_nth(&file, magic, nth);
                lost[at + 2] ^= 0x40;
                let (pages, report) = met(&to, &lost);
                assert!(report.damaged > 0, "{magic:?} {nth}");
                assert!(pages == 2 || magic == b"PK\x03\x04", "{magic:?} {nth}: {:?}", report.problems);
            }
        }
    }
}

fn memchr_nth(bytes: &[u8], magic: &[u8], nth: usize) -> usize {
    let places = (0..bytes.len()).filter(|&at| bytes[at..].starts_with(magic));
    places.into_iter().nth(nth).expect("it is there")
}

#[test]
fn two_entries_of_one_name_are_read_and_told() {
    let (a, b) = (page("a", "text of a"), page("b", "text of b"));
    let mut file = zip_of(&[("archive/a.warc", &a), ("archive/b.warc", &b)], CompressionMethod::Stored);
    for at in 0..file.len() {
        if file[at..].starts_with(b"archive/b.warc") {
            file[at + 8] = b'a';
        }
    }
    let (to, report) = imported(&file);
    assert_eq!((report.stored, report.damaged), (2, 1), "{:?}", report.problems);
    assert!(report.problems[0].what.contains("2 entries have this name"), "{:?}", report.problems);
    assert_eq!(report.problems[0].file, "x.wacz: archive/a.warc");
    assert!(to.store.contains("http://example.com/b").expect("readable"));
}

#[test]
fn zip_files_one_after_the_other_are_both_read_and_told() {
    let of = |name: &str| zip_of(&[("archive/x.warc", &page(name, name))], CompressionMethod::Deflated);
    let (a, b) = (of("a"), of("b"));
    let far = vec![b'x'; 100_000];
    for (file, pages) in [
        ([&a[..], &b].concat(), 2),
        ([&a[..], b"junk"].concat(), 1),
        ([&a[..], &far].concat(), 1),
        ([&a[..], b"junk", &b].concat(), 2),
        ([&a[..], &b, &far].concat(), 2),
        ([&a[..], &a].concat(), 1),
    ] {
        let (to, report) = imported(&file);
        assert!(report.stored == pages && report.damaged > 0, "{:?}", report.problems);
        assert!(to.store.contains("http://example.com/a").expect("readable"));
    }
}

#[test]
fn an_entry_that_the_list_has_under_another_name_is_read_by_either() {
    let file = zip_of(&[("archive/a.warc", &page("a", "a")), ("b.txt", b"b")], CompressionMethod::Stored);
    for (nth, told) in [(0, "x.wacz: archive/a.warc"), (1, "x.wacz: brchive/a.warc")] {
        let mut renamed = file.clone();
        renamed[memchr_nth(&file, b"archive/a.warc", nth)] = b'b';
        let (_, report) = imported(&renamed);
        assert_eq!((report.stored, report.damaged), (1, 1), "{:?}", report.problems);
        assert_eq!(report.problems[0].file, told);
        assert!(report.problems[0].what.contains("its own header calls it"), "{:?}", report.problems);
    }
}

#[test]
fn entries_with_their_sizes_behind_them_and_large_ones_are_whole() {
    struct Pipe(Vec<u8>);
    impl Write for Pipe {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.write(bytes)
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    for method in [CompressionMethod::Stored, CompressionMethod::Deflated] {
        for is_large in [false, true] {
            let options = SimpleFileOptions::default().compression_method(method).large_file(is_large);
            let mut zip = ZipWriter::new_stream(Pipe(Vec::new()));
            for name in ["a", "b"] {
                zip.start_file(format!("archive/{name}.warc"), options).expect("memory");
                zip.write_all(&page(name, name)).expect("memory");
            }
            let file = zip.finish().expect("memory").into_inner().0;
            let (_, report) = imported(&file);
            assert_eq!((report.stored, report.losses()), (2, 0), "{method:?} {is_large}: {:?}", report.problems);
            let (_, report) = imported(&file[..file.len() - 30]);
            assert!(report.stored == 2 && report.damaged > 0, "{method:?} {is_large}: {:?}", report.problems);
        }
    }
}
