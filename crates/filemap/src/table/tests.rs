//! Compares tables with the pages of their store.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use arrow_array::cast::AsArray;
use arrow_array::types::{TimestampMillisecondType, UInt16Type, UInt64Type};
use arrow_array::{Array, RecordBatch, RecordBatchReader};

use super::*;
use crate::dump::{Selection, StatusRange};
use crate::page::{RecordKind, Revisit, RevisitProfile};
use crate::{Page, PageStore, Variant};
use filemap_core::Options;

fn store() -> (tempfile::TempDir, PageStore) {
    let dir = tempfile::tempdir().unwrap();
    let store = PageStore::create(dir.path().join("pages.fm"), Options::new().free_space_floor(0)).unwrap();
    (dir, store)
}

fn page(n: i64) -> Page {
    let host = ["a.example", "www.b.example", "c.example:8080"][n as usize % 3];
    let mut page =
        Page::new(format!("http://{host}/{n}?q={n}"), 1_700_000_000_000 + n, 200 + n as u16 % 5, format!("<html>{n}"));
    page.headers.push("Content-Type", "Text/HTML; charset=utf-8");
    page.headers.push("Set-Cookie", "a=1");
    page.headers.push("Set-Cookie", b"b=\xfc".to_vec());
    page
}

fn put(store: &PageStore, page: &Page) {
    store.put_page(page).unwrap();
}

fn batches(store: &PageStore, options: &TableOptions) -> Vec<RecordBatch> {
    store.table(options).unwrap().collect::<std::result::Result<_, _>>().unwrap()
}

fn texts(batches: &[RecordBatch], column: Column) -> Vec<Option<String>> {
    let of = |batch: &RecordBatch| -> Vec<Option<String>> {
        let found = batch.column_by_name(column.name()).unwrap().as_string::<i32>().clone();
        found.iter().map(|text| text.map(str::to_owned)).collect()
    };
    batches.iter().flat_map(of).collect()
}

/// Bodies by URL.
fn bodies(batches: &[RecordBatch]) -> BTreeMap<String, Vec<u8>> {
    let of = |batch: &RecordBatch| {
        let urls = batch.column_by_name("url").unwrap().as_string::<i32>().clone();
        let bodies = batch.column_by_name("body").unwrap().as_binary::<i64>().clone();
        (0..batch.num_rows()).map(|n| (urls.value(n).to_owned(), bodies.value(n).to_vec())).collect::<Vec<_>>()
    };
    batches.iter().flat_map(of).collect()
}

fn expected(store: &PageStore) -> BTreeMap<String, Vec<u8>> {
    let of = |page: Page| (String::from_utf8(store.key(&page.url).unwrap()).unwrap(), page.body);
    store.pages().map(|page| of(page.unwrap())).collect()
}

#[test]
fn a_table_has_every_page_in_batches_of_the_size_asked_for() {
    let (_dir, store) = store();
    (0..300).for_each(|n| put(&store, &page(n)));
    let options = TableOptions::new().columns(&Column::ALL).batch_rows(64);
    let table = store.table(&options).unwrap();
    let schema = table.schema();
    let found: Vec<RecordBatch> = table.map(std::result::Result::unwrap).collect();
    assert_eq!(found.iter().map(RecordBatch::num_rows).collect::<Vec<_>>(), [64, 64, 64, 64, 44]);
    assert!(found.iter().all(|batch| batch.schema() == schema));
    assert_eq!(bodies(&found), expected(&store));
    let small = TableOptions::new().columns(&[Column::Url, Column::Body]).batch_bytes(1);
    assert_eq!(batches(&store, &small).len(), 300);
    let limited = batches(&store, &small.limit(Some(7)));
    assert_eq!(limited.len(), 7);
    assert_eq!(
        batches(&store, &TableOptions::new().columns(&[])).iter().map(RecordBatch::num_rows).sum::<usize>(),
        300
    );
}

#[test]
fn the_columns_of_a_row_say_what_the_page_does() {
    let (_dir, store) = store();
    let mut own = page(5);
    own.digest = Some("sha1:VGMT4NSHA2AWVOR6EVYXQUGCNSONBWE5".to_owned());
    own.ip = Some("192.0.2.1".parse().unwrap());
    own.method = Some("GET".to_owned());
    own.truncated = Some("length".to_owned());
    let version = store.put_page(&own).unwrap();
    let found = batches(&store, &TableOptions::new().columns(&Column::ALL));
    let text = |column| texts(&found, column)[0].clone().unwrap_or_else(|| "null".to_owned());
    let of = |column: Column| (column.name(), text(column));
    let rows = [
        (Column::Url, "http://c.example:8080/5?q=5"),
        (Column::UrlSurtkey, "example,c:8080)/5?q=5"),
        (Column::UrlHostName, "c.example"),
        (Column::UrlHostTld, "example"),
        (Column::UrlProtocol, "http"),
        (Column::UrlPath, "/5"),
        (Column::UrlQuery, "q=5"),
        (Column::ContentDigest, "VGMT4NSHA2AWVOR6EVYXQUGCNSONBWE5"),
        (Column::ContentMimeType, "text/html"),
        (Column::ContentMimeDetected, "text/html"),
        (Column::ContentCharset, "UTF-8"),
        (Column::ContentTruncated, "length"),
        (Column::Kind, "response"),
        (Column::Method, "GET"),
        (Column::Ip, "192.0.2.1"),
    ];
    for (column, expected) in rows {
        assert_eq!(of(column), (column.name(), expected.to_owned()));
    }
    let column = |name: &str| found[0].column_by_name(name).unwrap().clone();
    assert_eq!(column("fetch_time").as_primitive::<TimestampMillisecondType>().value(0), own.fetched_at_ms);
    assert_eq!(column("fetch_status").as_primitive::<UInt16Type>().value(0), 200);
    assert_eq!(column("version_sequence").as_primitive::<UInt64Type>().value(0), version.sequence);
    let headers = column("headers").as_map().value(0);
    let pairs: Vec<(String, String)> = (0..headers.len())
        .map(|n| [0, 1].map(|at| headers.column(at).as_string::<i32>().value(n).to_owned()).into())
        .collect();
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(
        pairs,
        [pair("Content-Type", "Text/HTML; charset=utf-8"), pair("Set-Cookie", "a=1"), pair("Set-Cookie", "b=\u{fc}")]
    );
}

#[test]
fn a_digest_that_is_not_known_is_that_of_the_body() {
    let (_dir, store) = store();
    store.put_page(&Page::new("http://a/", 1, 200, "abc")).unwrap();
    for columns in [&[Column::ContentDigest][..], &[Column::ContentDigest, Column::Body]] {
        let found = texts(&batches(&store, &TableOptions::new().columns(columns)), Column::ContentDigest);
        assert_eq!(found, [Some("VGMT4NSHA2AWVOR6EVYXQUGCNSONBWE5".to_owned())]);
    }
}

#[test]
fn rows_are_selected_with_and_without_bodies() {
    let (_dir, store) = store();
    (0..60).for_each(|n| put(&store, &page(n)));
    let number = |selection: Selection| {
        let with = |columns: &[Column]| {
            let options = TableOptions::new().columns(columns).selection(selection.clone());
            let found = batches(&store, &options);
            found.iter().map(RecordBatch::num_rows).sum::<usize>()
        };
        let numbers = (with(&[Column::Url]), with(&[Column::Body]));
        assert_eq!(numbers.0, numbers.1);
        numbers.0
    };
    assert_eq!(number(Selection::new()), 60);
    assert_eq!(number(Selection::new().host("a.example")), 20);
    assert_eq!(number(Selection::new().host("b.example")), 0);
    assert_eq!(number(Selection::new().host_with_subdomains("b.example")), 20);
    assert_eq!(number(Selection::new().prefix("http://c.example:8080/")), 20);
    assert_eq!(number(Selection::new().from(1_700_000_000_010).before(1_700_000_000_020)), 10);
    assert_eq!(number(Selection::new().status(StatusRange::new(201, 202))), 24);
    assert_eq!(number(Selection::new().mime("text/*".parse().unwrap())), 60);
    assert_eq!(number(Selection::new().mime("image/*".parse().unwrap())), 0);
}

#[test]
fn versions_variants_and_revisits_are_rows_if_asked_for() {
    let (_dir, store) = store();
    store.put_page(&page(1)).unwrap();
    store.put_page(&Page { fetched_at_ms: 5, ..page(1) }).unwrap();
    store.put_page(&Page { variant: Some(Variant::new("v").unwrap()), ..page(1) }).unwrap();
    store.put_page(&Page { kind: RecordKind::Request, ..page(1) }).unwrap();
    let profile = RevisitProfile::ServerNotModified;
    let revisit = Revisit { profile, refers_to_url: None, refers_to_ms: None, refers_to_id: None, original: None };
    let again = Page { fetched_at_ms: page(1).fetched_at_ms + 9, body: Vec::new(), ..page(1) };
    store.put_page(&Page { kind: RecordKind::Revisit, revisit: Some(revisit), ..again }).unwrap();
    let all = TableOptions::new().columns(&[Column::Url, Column::Kind, Column::Body]);
    let rows = |options: &TableOptions| batches(&store, options).iter().map(RecordBatch::num_rows).sum::<usize>();
    assert_eq!(rows(&all), 1);
    assert_eq!(rows(&all.clone().records(Records::Variants)), 2);
    assert_eq!(rows(&all.clone().records(Records::All)), 3);
    assert_eq!(rows(&all.clone().all_versions()), 3);
    assert_eq!(rows(&all.clone().all_versions().records(Records::All)), 5);
    let found = batches(&store, &all);
    assert_eq!(texts(&found, Column::Kind), [Some("revisit".to_owned())]);
    assert_eq!(bodies(&found), expected(&store));
}

#[test]
fn splits_have_the_rows_of_the_store_each_once() {
    let (_dir, store) = store();
    (0..500).for_each(|n| put(&store, &page(n)));
    let splits = store.splits(3).unwrap();
    store.put_page(&page(500)).unwrap();
    let mut urls = Vec::new();
    for split in splits {
        let options = TableOptions::new().columns(&[Column::Url]).split(Some(split));
        urls.extend(texts(&batches(&store, &options), Column::Url).into_iter().flatten());
    }
    urls.sort();
    let mut all: Vec<String> = expected(&store).into_keys().filter(|url| !url.ends_with("=500")).collect();
    all.sort();
    assert_eq!(urls, all);
}

#[test]
fn parts_by_url_have_the_rows_of_their_selection() {
    let (_dir, store) = store();
    (0..300).for_each(|n| put(&store, &page(n)));
    (0..300).step_by(2).for_each(|n| put(&store, &Page { fetched_at_ms: 1_800_000_000_000, ..page(n) }));
    let selection = Selection::new().host("www.b.example").status("200-202".parse().unwrap());
    let scope = crate::access::Scope::new().host("www.b.example");
    let parts = store.url_parts(&scope, 6).unwrap().expect("few pages");
    assert!(parts.len() >= 2);
    for columns in [&[Column::Url, Column::Body][..], &Column::ALL, &[Column::Url, Column::ContentDigest]] {
        for all_versions in [false, true] {
            let options = TableOptions::new().columns(columns).selection(selection.clone());
            let options = if all_versions { options.all_versions() } else { options };
            let lines = |options: &TableOptions| -> Vec<String> {
                let of = |batch: &RecordBatch| {
                    (0..batch.num_rows()).map(|n| format!("{:?}", batch.slice(n, 1))).collect::<Vec<_>>()
                };
                batches(&store, options).iter().flat_map(of).collect()
            };
            let mut whole = lines(&options);
            let mut found: Vec<String> =
                parts.iter().flat_map(|part| lines(&options.clone().urls(Some(part.clone())))).collect();
            whole.sort();
            found.sort();
            assert!(!found.is_empty() && found == whole, "{columns:?} {all_versions}");
        }
    }
    let refused = TableOptions::new().records(Records::Variants).urls(parts.into_iter().next());
    assert!(store.table(&refused).is_err());
}

#[test]
fn a_part_by_url_has_the_rows_of_damaged_keys() {
    let (dir, store) = store();
    (0..300).for_each(|n| put(&store, &page(n)));
    (0..300).step_by(2).for_each(|n| put(&store, &Page { fetched_at_ms: 1_800_000_000_000, ..page(n) }));
    let host = crate::access::Scope::new().host("www.b.example");
    let url = store.listing(&host, None).unwrap().last().unwrap().unwrap().url;
    store.close().unwrap();
    let path = dir.path().join("pages.fm");
    let mut bytes = std::fs::read(path.join("key0.dat")).unwrap();
    let at = bytes.windows(url.len()).rposition(|found| found == url).expect("the key of its newest version");
    bytes[at] ^= 1;
    std::fs::write(path.join("key0.dat"), bytes).unwrap();
    let store = PageStore::open_read_only(&path, Options::new()).unwrap();
    let parts = store.url_parts(&host, 6).unwrap().expect("few pages");
    let failed = parts.iter().flat_map(|part| store.heads_of_urls(part).unwrap()).filter(std::result::Result::is_err);
    assert_eq!(failed.count(), 1, "heads are looked up alone");
    let selection = Selection::new().host("www.b.example");
    for columns in [&[Column::Url, Column::Body][..], &[Column::Url, Column::FetchTime]] {
        for all_versions in [false, true] {
            let options = TableOptions::new().columns(columns).selection(selection.clone());
            let options = if all_versions { options.all_versions() } else { options };
            let read = |options: TableOptions| {
                let table = store.table(&options.on_damage(OnDamage::Count)).unwrap();
                let watch = table.watch();
                let urls = texts(&table.map(std::result::Result::unwrap).collect::<Vec<_>>(), Column::Url);
                (urls.len(), urls.into_iter().collect::<BTreeSet<_>>(), watch.report().damaged)
            };
            let whole = read(options.clone());
            let found: Vec<_> = parts.iter().map(|part| read(options.clone().urls(Some(part.clone())))).collect();
            assert_eq!(found.iter().map(|part| part.0).sum::<usize>(), whole.0, "{columns:?} {all_versions}");
            assert_eq!(found.iter().flat_map(|part| part.1.clone()).collect::<BTreeSet<_>>(), whole.1);
            assert_eq!(found.iter().map(|part| part.2).sum::<u64>(), whole.2);
            assert!(all_versions || whole.2 == 0, "a pass reads no key log");
        }
    }
}

#[test]
fn damage_ends_the_table_after_every_whole_row() {
    let (dir, store) = store();
    (0..200).for_each(|n| put(&store, &Page { body: vec![n as u8; 5000], ..page(n) }));
    store.close().unwrap();
    let path = dir.path().join("pages.fm");
    let longest = std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path());
    let longest =
        longest.filter(|path| path.to_string_lossy().contains("value")).max_by_key(|p| p.metadata().unwrap().len());
    let segment = longest.unwrap_or_else(|| panic!("{:?}", std::fs::read_dir(&path).unwrap().collect::<Vec<_>>()));
    let mut bytes = std::fs::read(&segment).unwrap();
    bytes[10_000] ^= 0x55;
    std::fs::write(&segment, bytes).unwrap();
    let store = PageStore::open_read_only(&path, Options::new()).unwrap();
    for columns in [&[Column::Url][..], &[Column::Url, Column::Body]] {
        let table = store.table(&TableOptions::new().columns(columns)).unwrap();
        let watch = table.watch();
        let found: Vec<_> = table.collect();
        assert!(found.len() == 2 && found[0].as_ref().unwrap().num_rows() == 199);
        let said = found[1].as_ref().unwrap_err().to_string();
        assert!(said.contains("left out") && watch.report().damaged >= 1, "{said}");
        let counted = store.table(&TableOptions::new().columns(columns).on_damage(OnDamage::Count)).unwrap();
        assert_eq!(counted.map(std::result::Result::unwrap).count(), 1);
    }
}

#[test]
fn a_table_can_go_to_another_thread() {
    fn is_send<T: Send + 'static>() {}
    is_send::<PageTable>();
    is_send::<TableWatch>();
}

#[cfg(feature = "parquet")]
#[test]
fn a_parquet_file_gives_the_table_back() {
    use ::parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

    let (dir, store) = store();
    (0..300).for_each(|n| put(&store, &page(n)));
    let path = dir.path().join("pages.parquet");
    let options = TableOptions::new().columns(&Column::ALL).batch_rows(100);
    let mut told = 0;
    let report = write_parquet(&store, &options, std::fs::File::create(&path).unwrap(), &mut |_| {
        told += 1;
        ControlFlow::Continue(())
    });
    assert_eq!((report.unwrap().rows, told), (300, 3));
    let reader = ParquetRecordBatchReaderBuilder::try_new(std::fs::File::open(&path).unwrap()).unwrap();
    let reader = reader.with_batch_size(100).build().unwrap();
    let read: Vec<RecordBatch> = reader.map(std::result::Result::unwrap).collect();
    assert_eq!(bodies(&read), expected(&store));
    assert_eq!(read, batches(&store, &options));
    let mut out = Vec::new();
    let stopped = write_parquet(&store, &options, &mut out, &mut |_| ControlFlow::Break(())).unwrap();
    assert!(stopped.is_cancelled && out == b"PAR1", "no footer");
}
