//! Writes the first inputs of every target to a folder: records of the golden store, and pieces of
//! the real files in tests/data. `fuzz/run seeds` calls it and packs them.

use std::fs;
use std::path::{Path, PathBuf};

use filemap::Page;
use filemap::page::meta;
use filemap_tests::hostile::forge::PAGE;
use filemap_tests::hostile::golden;
use filemap_tests::hostile::layout::Layout;

fn main() -> std::io::Result<()> {
    format()?;
    store()?;
    ops()?;
    warc_and_http()?;
    seen()?;
    frontier()?;
    text()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_path_buf()
}

/// Writes one input: the first byte, and the rest.
fn write(target: &str, name: &str, first: u8, rest: &[u8]) -> std::io::Result<()> {
    let Some(inputs) = std::env::args_os().nth(1) else { return Err(std::io::Error::other("usage: seeds FOLDER")) };
    let folder = Path::new(&inputs).join(target);
    fs::create_dir_all(&folder)?;
    fs::write(folder.join(name), [&[first], rest].concat())
}

fn format() -> std::io::Result<()> {
    let image = golden::image();
    let layout = Layout::of(&image);
    write("format", "header", 0x80, &image.file("key0.dat")[..64])?;
    write("format", "superblock", 0x81, &image.file("SUPERBLOCK")[..512])?;
    for (nth, entry) in layout.values.iter().enumerate() {
        write("format", &format!("value{nth}"), 0x82, &image.file("value0.dat")[entry.range.clone()])?;
    }
    for (nth, entry) in layout.keys.iter().take(3).enumerate() {
        write("format", &format!("key{nth}"), 0x83, &image.file("key0.dat")[entry.range.clone()])?;
    }
    let index = image.file("address.idx");
    let leaf = layout.leaves[0].0 * PAGE;
    write("format", "leaf", 0x84, &index[leaf..leaf + 256])?;
    write("format", "node", 0x85, &index[layout.directory * PAGE..][..PAGE])?;
    write("format", "name", 6, b"value17.dat")?;
    // Magic, versions, id, and two dictionaries of 300 and 20 bytes; the checksums are made right.
    let mut dictionary = [&b"FMDICT\0\0"[..], &[0; 1016]].concat();
    for (at, byte) in [(12, 1), (14, 1), (32, 1), (68, 44), (69, 1), (76, 20)] {
        dictionary[at] = byte;
    }
    write("format", "dictionary", 0x87, &dictionary)?;
    // Two changes, one of which replaces a slot; the summary of a page of one; a list of one run.
    let mut changes = [0; 80];
    for (at, byte) in [(4, 3), (6, 2), (16, 1), (32, 9), (48, 8), (64, 7), (70, 1)] {
        changes[at] = byte;
    }
    write("format", "changes", 0x88, &changes)?;
    let mut summary = [0; 48];
    (summary[4], summary[6], summary[32], summary[40]) = (4, 1, 9, 1);
    write("format", "summary", 0x89, &summary)?;
    let list: Vec<u8> = [0, 0, 1, 1, 1, 5u64].into_iter().flat_map(u64::to_le_bytes).collect();
    write("format", "runs", 0x0a, &list)?;
    write("format", "values", 0x8c, &image.file("value0.dat")[64..])?;
    write("format", "keys", 0x8d, &image.file("key0.dat")[64..])
}

fn store() -> std::io::Result<()> {
    let edits: [&[u8]; 8] = [
        &[1, 0, 96, 0, 1],
        &[1, 1, 100, 0, 255],
        &[2, 1, 0, 20, 0],
        &[3, 1, 0, 0, 9],
        &[4, 3, 0, 16, 3],
        &[5, 2, 64, 0, 24, 160, 0],
        &[6, 2, 0, 0, 0],
        &[7, 3, 32, 64, 29, 7, 3, 40, 64, 30],
    ];
    for (nth, edit) in edits.iter().enumerate() {
        for flags in 0..4 {
            write("store", &format!("edit{nth}.{flags}"), flags, edit)?;
        }
    }
    let layout = Layout::of(&golden::image());
    for (nth, entry) in layout.values.iter().enumerate() {
        let [low, high] = (entry.range.start as u16 + 32).to_le_bytes();
        write("store", &format!("value{nth}"), 3, &[7, 1, low, high, 24 + 4])?;
    }
    for (nth, entry) in layout.keys.iter().enumerate() {
        let [low, high] = (entry.range.start as u16 + 32).to_le_bytes();
        write("store", &format!("key{nth}"), 3, &[7, 2, low, high, 16])?;
    }
    Ok(())
}

fn ops() -> std::io::Result<()> {
    let all: Vec<u8> = (0..16).flat_map(|code| [code, code % 3, code, 17 * code]).collect();
    let reversed: Vec<u8> = all.chunks(4).rev().flatten().copied().collect();
    write("ops", "all", 0, &all.repeat(2))?;
    write("ops", "reversed", 2, &reversed.repeat(2))?;
    write("ops", "large", 0, &[8, 1, 3, 255, 8, 1, 2, 200, 12, 0, 0, 0, 15, 0, 0, 0, 8, 1, 4, 99])
}

fn warc_and_http() -> std::io::Result<()> {
    let data = root().join("../tests/data/warc");
    for entry in fs::read_dir(&data)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let bytes = fs::read(&path)?;
        write("warc", &name, 0, &bytes[..bytes.len().min(6000)])?;
        if name.ends_with(".warc") {
            write("warc", &format!("{name}.member"), 31, &bytes[..bytes.len().min(6000)])?;
        }
        let mut reader = filemap::warc::Reader::new(&bytes[..], name.clone(), filemap::warc::Spool::default())
            .map_err(std::io::Error::other)?;
        let mut nth = 0;
        while let Some(item) = reader.next_item().map_err(std::io::Error::other)? {
            let filemap::warc::Item::Record(mut record) = item else { continue };
            if record.block_bytes() > 3000 || !matches!(record.header.record_type(), "response" | "request") {
                continue;
            }
            let first = u8::from(record.header.record_type() == "request");
            let mut block = Vec::new();
            std::io::Read::read_to_end(&mut record.block().map_err(std::io::Error::other)?, &mut block)?;
            write("http", &format!("{name}.{nth}"), first, &block)?;
            nth += 1;
            if nth == 4 {
                break;
            }
        }
    }
    let chunked =
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n3;x=y\r\n<p>\r\n0\r\nA: b\r\n\r\n";
    write("http", "chunked", 0, chunked)?;
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut gzip, b"a page, a page, a page")?;
    let head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 40\r\n\r\n";
    write("http", "gzip", 0, &[&head[..], &gzip.finish()?].concat())?;
    for coding in ["br", "zstd", "deflate"] {
        let head = format!("HTTP/1.0 200\nContent-Encoding: {coding}\n\n\x28\x0b\x00");
        write("http", coding, 0, head.as_bytes())?;
    }
    Ok(())
}

/// URLs with some rules, and a few edits of each kind of set with and without right checksums.
fn seen() -> std::io::Result<()> {
    let urls = fs::read_to_string(root().join("../tests/data/canon/weirdToNormalizedUrls.csv"))?;
    for (nth, url) in urls.lines().enumerate().filter(|(nth, _)| nth % 7 == 0) {
        write("seen", &format!("url{nth}"), 0, &[&(nth as u32 * 9973).to_le_bytes(), url.as_bytes()].concat())?;
    }
    write("seen", "base", 0, b"\x03\0\0\0http://a.example/x/y?z\n../b;c?utm_source=1&b=&a=%7e#top")?;
    let edits: [&[u8]; 7] = [
        &[1, 0, 96, 0, 1],
        &[1, 1, 0, 16, 255],
        &[2, 1, 0, 2, 0],
        &[3, 0, 0, 0, 9, 3, 1, 0, 0, 32],
        &[5, 0, 48, 0, 30, 5, 1, 40, 0, 26],
        &[6, 1, 0, 0, 0],
        &[7, 0, 1, 0, 6, 7, 1, 0, 0, 1],
    ];
    for (nth, edit) in edits.iter().enumerate() {
        for kind in 0..7 {
            // Both are divided by the number of kinds; only the second has the mark of right
            // checksums.
            write("seen", &format!("edit{nth}.{kind}"), 70 + kind, edit)?;
            write("seen", &format!("sealed{nth}.{kind}"), 133 + kind, edit)?;
        }
    }
    Ok(())
}

/// A few lives, and edits of each file with and without right checksums.
fn frontier() -> std::io::Result<()> {
    let life: Vec<u8> = (0..120u8)
        .flat_map(|i| [[0, 1, 4, 1, 5, 7, 2, 10, 6, 9, 11, 3][usize::from(i % 12)], 37u8.wrapping_mul(i)])
        .collect();
    write("frontier", "life", 0, &life)?;
    let fetches: Vec<u8> =
        (0..90u8).flat_map(|i| [[0, 1, 4, 1, 4, 12][usize::from(i % 6)], 11u8.wrapping_mul(i)]).collect();
    write("frontier", "fetches", 1, &[&fetches[..], &[10, 0, 11, 2, 11, 5, 11, 66, 11, 0]].concat())?;
    let edits: [&[u8]; 7] = [
        &[1, 0, 96, 0, 1],
        &[1, 0, 4, 2, 255],
        &[2, 0, 0, 3, 0],
        &[3, 0, 0, 0, 9, 3, 1, 0, 0, 32],
        &[6, 0, 8, 2, 30, 6, 1, 16, 2, 26],
        &[5, 0, 0, 0, 0],
        &[6, 0, 40, 3, 29, 6, 0, 64, 2, 30],
    ];
    for (nth, edit) in edits.iter().enumerate() {
        for file in 0..4 {
            let mut edit = edit.to_vec();
            edit.chunks_mut(5).for_each(|edit| edit[1] = file);
            write("frontier", &format!("edit{nth}.{file}"), 64, &edit)?;
            write("frontier", &format!("sealed{nth}.{file}"), 128, &edit)?;
        }
    }
    Ok(())
}

fn text() -> std::io::Result<()> {
    let page = Page::new("http://a/x", 1000, 200, "body");
    let encoded = meta::encode(&page, b"http://a/").map_err(std::io::Error::other)?;
    write("text", "meta", 0, &encoded.meta)?;
    let mut line = Vec::new();
    filemap::dump::jsonl::write(&page, &mut line).map_err(std::io::Error::other)?;
    write("text", "line", 1, &line)?;
    let full = br#"{"url_base64":"aHR0cDovL2Ev","time":"2020-01-01T00:00:00Z","kind":"revisit","headers":[{"name":"a","value":"b"}],"ip":"::1","revisit":{"profile":"identical-payload","url":"u","time_ms":1}}"#;
    write("text", "full-line", 1, full)?;
    for (nth, date) in ["2017-03-06T05:03:53.123+01:00", "20170306040353", "2017-03"].iter().enumerate() {
        write("text", &format!("date{nth}"), 2, date.as_bytes())?;
    }
    let urls = fs::read_to_string(root().join("../tests/data/canon/weirdToNormalizedUrls.csv"))?;
    for (nth, url) in urls.lines().enumerate().filter(|(nth, _)| nth % 9 == 0) {
        write("text", &format!("url{nth}"), 3 + (nth % 2) as u8, url.as_bytes())?;
    }
    Ok(())
}
