//! Tests of the format: docs/FORMAT.md has exactly the tables of all layouts, and golden bytes pin
//! the meaning of the tables.

use filemap_io::layout::table;

use super::bits::Bits;
use super::*;

/// The tables of docs/FORMAT.md, in its order.
fn tables() -> Vec<String> {
    macro_rules! of {
        ($($layout:path),+) => {
            [$((<$layout>::ROWS, <$layout>::OPEN)),+].iter().flat_map(|(rows, open)| table(rows, open)).collect::<Vec<_>>()
        };
    }
    [
        of!(
            header::Layout,
            superblock::Layout,
            rolls::Layout,
            value::Layout,
            value::ReferenceLayout,
            value::RemovedLayout,
            value::ChunkLayout
        ),
        of!(key::Layout, leaf::Layout),
        bits(&leaf::SLOT_FIELDS),
        of!(node::Layout),
        bits(&node::ENTRY_FIELDS),
        bits(&row::FIELDS),
        of!(run::Layout, run::SummaryLayout),
        bits(&run::HEAD_FIELDS),
        bits(&run::FIELDS),
        of!(dictionary::Layout, rules::Layout, rules::RuleLayout, verified::Layout),
        of!(verified::UnderWayLayout, verified::FrameLayout),
    ]
    .concat()
}

fn bits(fields: &[Bits]) -> Vec<String> {
    let row = |field: &Bits| {
        let high = field.low + field.bits - 1;
        format!("| {} | {high}..{} | {} |", field.word, field.low, field.text)
    };
    fields.iter().map(row).collect()
}

#[test]
fn the_format_document_has_the_table_of_every_layout_and_no_other() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/FORMAT.md");
    let document = std::fs::read_to_string(path).unwrap();
    let sections = document.split("<!-- layout tables end -->").next().unwrap();
    let headings = ["| offset | size | field |", "| word | bits | field |", "|---|---|---|"];
    let heading = |line: &&str| headings.contains(line);
    let found: Vec<&str> = sections.lines().filter(|l| l.starts_with('|')).filter(|l| !heading(l)).collect();
    assert_eq!(found, tables());
}

#[test]
fn golden_bytes_of_each_record_do_not_change() {
    let crc = |bytes: &[u8]| crc32fast::hash(bytes);
    let header = header::FileHeader::new(header::Kind::Keys, [1; 16], 0, 5).encode();
    let with_life = superblock::example().encode();
    let mut superblock = superblock::example();
    (superblock.life, superblock.removals_from) = (0, 0);
    let with_runs = superblock.encode();
    (superblock.index.runs, superblock.index.runs_words) = (0, 0);
    let superblock = superblock.encode();
    let mut key = Vec::new();
    key::KeyRecord {
        key_bytes: 3,
        version: crate::record::Version { time_ms: 1, sequence: 2 },
        extent: location::Extent { location: location::Location::new(1, 64), units: 9 },
        chunked: false,
        previous: 0,
        chain: 1,
        refers_to: 0,
        holder: 0,
    }
    .encode(b"abc", 7, 64, &mut key);
    let slot = leaf::Slot {
        hash: 1,
        key: 0x12_3456_789a,
        location: location::Location::new(2, 128),
        size: location::SizeClass(3),
    };
    let leaf = leaf::encode(7, 1, 7, 0, 1, &[slot]);
    let node = node::encode(7, 1, 0, 1, 0, &[node::Entry { page: 1, count: 1, depth: 7 }.pack()]);
    let change = run::Change { slot, replaces: 5 };
    let changes = run::encode(7, 1, 0, 1, &[change]);
    let summary = run::Summary::of(0, 1, &[&[change]]).encode(7, 1);
    let mut value = [0; 64];
    value::seal_head(&value::Header::filler(64), 7, 64, &mut value);
    let making =
        dictionary::Making { created_ms: 5, group: b"g".to_vec(), pages: 1, body_ppm: 2, meta_ppm: 3, level: 4 };
    let dictionary = dictionary::encode([1; 16], 2, &making, b"bodies", b"metas");
    let rules = rules::example().encode(&[1; 16]);
    assert_eq!(
        [
            &header[..],
            &superblock,
            &key,
            &leaf,
            &node,
            &value,
            &dictionary,
            &rules,
            &changes,
            &summary,
            &with_runs,
            &with_life
        ]
        .map(crc),
        GOLDEN,
        "the format changed: raise FORMAT_VERSION, keep reading the old one, then change this"
    );
    assert_eq!(seed(&[1; 16], 3), GOLDEN_SEED);
}

const GOLDEN: [u32; 12] = [
    174_435_535,
    1_221_300_079,
    1_143_007_703,
    1_496_404_733,
    1_563_760_120,
    3_997_636_752,
    1_900_857_821,
    3_522_653_785,
    2_359_700_662,
    826_138_908,
    510_153_052,
    1_738_569_420,
];
const GOLDEN_SEED: u32 = 2_416_180_618;
