//! Edits of the golden store's files, then everything that a store does: open, get, head, history,
//! lists, verify, put.
//!
//! The first byte: bit 0 asks for valid checksums over the edits, bit 1 for a writer instead
//! of a reader. The rest are edits: operation, file, offset (2 bytes), argument, and for an
//! overwrite that many bytes.
#![no_main]

use std::cell::RefCell;
use std::ops::Range;

use filemap_tests::hostile::forge::{self, PAGE};
use filemap_tests::hostile::golden;
use filemap_tests::hostile::image::{Image, Scratch};
use filemap_tests::hostile::judge::Expect;
use filemap_tests::hostile::layout::{Cost, Entry, Layout};
use libfuzzer_sys::fuzz_target;
use peak_alloc::PeakAlloc;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// More than the files are large: a page may be said to have 64 MiB, and is then read into two
/// buffers at most.
const MEMORY_LIMIT: usize = 192 << 20;
const FILES: [&str; 4] = ["SUPERBLOCK", "value0.dat", "key0.dat", "address.idx"];
const EXTREMES: [u64; 8] = [0, 0xff, 0xffff, 1 << 30, 0xffff_ffff, 1 << 60, u64::MAX, 64];

struct Bench {
    golden: Image,
    layout: Layout,
    scratch: Scratch,
}

thread_local! {
    static BENCH: RefCell<Option<Bench>> = const { RefCell::new(None) };
}

fuzz_target!(|data: &[u8]| {
    BENCH.with_borrow_mut(|bench| {
        let bench = bench.get_or_insert_with(|| {
            let golden = golden::image();
            Bench { layout: Layout::of(&golden), golden, scratch: Scratch::default() }
        });
        run(bench, data);
    });
});

/// Edits of the image so far.
struct Damage {
    image: Image,
    cost: Cost,
    is_sealed: bool,
    values_forged: bool,
}

fn run(bench: &mut Bench, data: &[u8]) {
    let Some((&flags, mut edits)) = data.split_first() else { return };
    let mut damage =
        Damage { image: bench.golden.clone(), cost: Cost::default(), is_sealed: flags & 1 != 0, values_forged: false };
    for _ in 0..8 {
        let Some((edit, rest)) = edits.split_first_chunk::<5>() else { break };
        edits = damage.edit(&bench.layout, *edit, rest);
    }
    let is_forged = damage.is_sealed || forge::is_forged(&damage.image, &bench.golden);
    let expect = match (is_forged, damage.is_sealed && !damage.values_forged) {
        (false, _) => Expect::new(&damage.cost),
        (true, true) => Expect::any_version(),
        (true, false) => Expect::anything(),
    };
    let before = MEMORY.current_usage();
    MEMORY.reset_peak_usage();
    // A reader waits for what it cannot open, as a writer may be at it: few inputs are worth that.
    let writes = flags & 2 != 0 || (damage.cost.opening && !data.len().is_multiple_of(8));
    let judged = if writes {
        expect.writing(&damage.image, &mut bench.scratch)
    } else {
        expect.reading(&damage.image, &mut bench.scratch)
    };
    if let Err(broken) = judged {
        panic!("{broken}");
    }
    let peak = MEMORY.peak_usage().saturating_sub(before);
    assert!(peak < MEMORY_LIMIT, "{peak} bytes at once");
}

impl Damage {
    /// Does one edit; the edits behind it.
    fn edit<'d>(&mut self, layout: &Layout, edit: [u8; 5], rest: &'d [u8]) -> &'d [u8] {
        let [operation, file, low, high, argument] = edit;
        let name = FILES[usize::from(file) % FILES.len()];
        let at = usize::from(u16::from_le_bytes([low, high]));
        let count = usize::from(argument);
        let Some(bytes) = self.image.0.get_mut(name) else { return rest };
        let len = bytes.len();
        let mut left = rest;
        let touched = match operation % 8 {
            0 => {
                let (new, behind) = rest.split_at(count.min(rest.len()));
                left = behind;
                let end = (at + new.len()).min(len);
                if at < end {
                    bytes[at..end].copy_from_slice(&new[..end - at]);
                }
                at..end
            }
            1 => {
                bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= argument);
                at..at + 1
            }
            2 => {
                bytes.truncate(at);
                self.cost.opening |= at < len && !(name == "value0.dat" && at >= layout.tail);
                at..len
            }
            3 => {
                bytes.resize(len + 16 * count, argument);
                len..len
            }
            4 => match swap_sectors(bytes, at / 512 * 512, count * 512) {
                Some((a, b)) => {
                    self.cost.add(layout.cost(name, b));
                    a
                }
                None => 0..0,
            },
            5 => {
                let (to, behind) = rest.split_at(2.min(rest.len()));
                left = behind;
                let to = to.iter().rev().fold(0, |n, &b| n << 8 | usize::from(b));
                let room = len.saturating_sub(at.max(to)).min(4 * count);
                if room > 0 {
                    bytes.copy_within(at..at + room, to);
                }
                to..to + room
            }
            6 => {
                self.image.0.remove(name);
                self.cost.opening = true;
                0..len
            }
            _ => {
                let extreme = EXTREMES[count % EXTREMES.len()].to_le_bytes();
                let width = [1, 2, 4, 8][count / EXTREMES.len() % 4];
                if let Some(field) = bytes.get_mut(at..at + width) {
                    field.copy_from_slice(&extreme[..width]);
                }
                at..at + width
            }
        };
        self.cost.add(layout.cost(name, touched));
        if self.is_sealed {
            self.values_forged |= name == "value0.dat" && at >= 64;
            seal(&mut self.image, layout, name, at);
        }
        left
    }
}

/// Lets two sectors of a file change places, if there are two; their ranges.
fn swap_sectors(bytes: &mut [u8], a: usize, b: usize) -> Option<(Range<usize>, Range<usize>)> {
    let (first, second) = (a.min(b), a.max(b));
    if second + 512 > bytes.len() || first == second {
        return None;
    }
    let (low, high) = bytes.split_at_mut(second);
    low[first..first + 512].swap_with_slice(&mut high[..512]);
    Some((a..a + 512, b..b + 512))
}

/// Seals what lies at an offset: the record that the golden store has there, or the page, copy or
/// header.
fn seal(image: &mut Image, layout: &Layout, name: &str, at: usize) {
    let id = image.0.get("SUPERBLOCK").map_or([0; 16], |file| forge::store_id(file));
    let Some(file) = image.0.get_mut(name) else { return };
    let record = |entries: &[Entry]| entries.iter().find(|e| e.range.contains(&at)).map(|e| e.range.start);
    match name {
        "SUPERBLOCK" => forge::superblock(file, at / PAGE * PAGE),
        _ if at < 64 => forge::header(file),
        "address.idx" => forge::page(file, &id, at / PAGE),
        "key0.dat" => drop(record(&layout.keys).map(|start| forge::key_record(file, &id, start))),
        _ => drop(record(&layout.values).map(|start| forge::value_record(file, &id, 0, start))),
    }
}
