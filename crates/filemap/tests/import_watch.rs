//! Reports of an import to its watcher: each record once, and as many of each fate as the report
//! counts.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use filemap::Put;
use filemap::import::{Fate, ImportOptions, ImportProgress, ImportReport, ImportWatch, ImportedRecord, import_into};
use filemap::page::RecordKind;

use crate::samples::{Fresh, bytes, fresh};

/// A reported record: place, type, URL, time, fate.
type Row = (u64, String, String, Option<i64>, &'static str);

#[derive(Default)]
struct Rows {
    rows: Vec<Row>,
    most: Option<usize>,
}

impl ImportWatch for Rows {
    fn progress(&mut self, _: ImportProgress) -> ControlFlow<()> {
        if self.most.is_some_and(|most| self.rows.len() >= most) {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }

    fn record(&mut self, record: &ImportedRecord<'_>) {
        let fate = match record.fate {
            Fate::Stored(Put::Stored(_)) => "stored",
            Fate::Stored(Put::Unchanged(_)) => "unchanged",
            Fate::AlreadyThere => "present",
            Fate::Ignored => "ignored",
            Fate::Failed(_) => "failed",
            Fate::Problem(_) => "problem",
            _ => "none",
        };
        let url = String::from_utf8_lossy(record.url).into_owned();
        self.rows.push((record.place.offset, record.record_type.to_owned(), url, record.time_ms, fate));
    }
}

fn told(fresh: &Fresh, file: &[u8], options: &ImportOptions, most: Option<usize>) -> (Vec<Row>, ImportReport) {
    let mut rows = Rows { most, ..Rows::default() };
    let mut stores = |_: &[u8]| Ok(fresh.store.clone());
    let report = import_into(&mut stores, "test.warc", file, options, &mut rows).expect("imported");
    (rows.rows, report)
}

fn check(name: &str, rows: &[Row], report: &ImportReport) {
    let mut fates: BTreeMap<&str, u64> = BTreeMap::new();
    for row in rows {
        *fates.entry(row.4).or_default() += 1;
    }
    let of = |fate: &str| fates.get(fate).copied().unwrap_or_default();
    assert_eq!(of("stored") + of("unchanged"), report.stored, "{name}");
    assert_eq!((of("unchanged"), of("present")), (report.unchanged, report.already_there), "{name}");
    assert_eq!(of("ignored"), report.ignored, "{name}");
    assert_eq!(of("failed") + of("problem"), report.losses() + report.warnings, "{name}");
    assert_eq!(rows.len() as u64 - of("problem"), report.records, "{name}: a fate for each record");
}

#[test]
fn every_record_of_every_sample_has_one_fate() {
    let mut files = 0;
    for folder in ["../warc", "../warcio"] {
        let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/warc/");
        for entry in std::fs::read_dir(format!("{dir}{folder}")).expect("samples") {
            let name = entry.expect("readable").path();
            let file = std::fs::read(&name).expect("readable");
            let name = name.display().to_string();
            let fresh = fresh();
            for options in [ImportOptions::new(), ImportOptions::new().keep(RecordKind::Request)] {
                let (rows, report) = told(&fresh, &file, &options, None);
                assert!(!rows.is_empty(), "{name}");
                check(&name, &rows, &report);
            }
            let mut damaged = file.clone();
            for at in (file.len() / 7..file.len()).step_by(file.len() / 5 + 1) {
                damaged[at] ^= 0x55;
            }
            damaged.truncate(file.len() - 3);
            let (rows, report) = told(&self::fresh(), &damaged, &ImportOptions::new(), None);
            check(&name, &rows, &report);
            assert!(report.losses() > 0, "{name}: damage is reported");
            files += 1;
        }
    }
    assert!(files > 10, "{files} samples");
}

#[test]
fn a_record_is_told_with_its_place_type_url_and_time() {
    let file = b"WARC/1.1\r\nWARC-Type: warcinfo\r\nContent-Length: 2\r\n\r\nok\r\n\r\n\
        WARC/1.1\r\nWARC-Type: resource\r\nWARC-Target-URI: http://a.example/\r\n\
        WARC-Date: 2023-11-14T22:13:20Z\r\nContent-Length: 5\r\n\r\nhello\r\n\r\n\
        WARC/1.1\r\nWARC-Type: resource\r\nWARC-Target-URI: no URL\r\n\
        WARC-Date: 2023-11-14T22:13:20Z\r\nContent-Length: 1\r\n\r\nx\r\n\r\n\
        WARC/1.1\r\nWARC-Type: resource\r\nContent-Length: 1\r\n\r\nx\r\n\r\n\
        WARC/1.1\r\nWARC-Type: nothing\r\nWARC-Target-URI: http://a.example/b\r\nContent-Length: 1\r\n\r\nx\r\n\r\n";
    let fresh = fresh();
    let (rows, report) = told(&fresh, file, &ImportOptions::new(), None);
    check("five records", &rows, &report);
    let starts: Vec<u64> = (0..file.len()).filter(|at| file[*at..].starts_with(b"WARC/")).map(|at| at as u64).collect();
    let row = |nth: usize, kind: &str, url: &str, time_ms, fate| -> Row {
        (starts[nth], kind.to_owned(), url.to_owned(), time_ms, fate)
    };
    let time = Some(1_700_000_000_000);
    let expected = [
        row(0, "warcinfo", "", None, "ignored"),
        row(1, "resource", "http://a.example/", time, "stored"),
        row(2, "resource", "no URL", time, "failed"),
        row(3, "resource", "", None, "failed"),
        row(4, "nothing", "http://a.example/b", None, "failed"),
    ];
    let told_fates: Vec<Row> = rows.iter().filter(|row| row.4 != "problem").cloned().collect();
    assert_eq!(told_fates, expected);
    let again = told(&fresh, file, &ImportOptions::new(), None).0;
    assert!(again.iter().any(|row| row.4 == "present") && again.iter().all(|row| row.4 != "stored"), "{again:?}");
}

#[test]
fn what_is_told_ends_where_the_watcher_does() {
    let (rows, report) = told(&fresh(), &bytes("python-docs.warc.gz"), &ImportOptions::new(), Some(20));
    assert!(report.is_cancelled);
    assert_eq!(rows.len(), 20);
}
