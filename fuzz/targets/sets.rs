//! One small set of each kind that `urlindex` keeps in files, damage to their files, and right
//! checksums over it.
//!
//! The checksums are written after the tables in the modules' documentation, not with their code.

use std::collections::BTreeMap;
use std::sync::Arc;

use filemap_io::Dir;
use filemap_io::sim::SimDisk;
use urlindex::disk::FingerprintBits;
use urlindex::{
    BloomFilter, BloomOptions, DiskOptions, DiskUrlSet, GrowingFilter, Md5Bitmap, Result, SeenSet, UrlTrie,
};

/// Every set is called so.
pub const NAME: &str = "s";
/// URLs in each set.
pub const URLS: u64 = 700;

/// The files of a set.
pub type Image = BTreeMap<String, Vec<u8>>;

/// Number `i` of the URLs.
pub fn url(i: u64) -> Vec<u8> {
    format!("http://h{}.example/page/{i}", i % 5).into_bytes()
}

/// The kinds of sets, twice where there are two sorts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Bitmap,
    Bloom,
    Blocked,
    Growing,
    Trie,
    Disk,
    Short,
}

impl Kind {
    pub const ALL: [Kind; 7] =
        [Kind::Bitmap, Kind::Bloom, Kind::Blocked, Kind::Growing, Kind::Trie, Kind::Disk, Kind::Short];

    /// The files of a set of this kind that was closed.
    pub fn image(self) -> Image {
        let disk = SimDisk::new(1);
        self.make(disk.dir()).expect("a simulated disk");
        let names = disk.names().into_iter().filter(|name| !name.ends_with(".lock"));
        names.map(|name| (name.clone(), disk.bytes(&name).unwrap_or_default())).collect()
    }

    fn make(self, dir: Arc<dyn Dir>) -> Result<()> {
        let all = 0..URLS;
        match self {
            Kind::Bitmap => {
                let set = Md5Bitmap::create_in(dir, NAME, 16)?;
                fill(&set, all)?;
                set.close()
            }
            Kind::Bloom | Kind::Blocked => {
                let options = BloomOptions::new(URLS, 1e-3);
                let set =
                    BloomFilter::create_in(dir, NAME, if self == Kind::Blocked { options.blocked() } else { options })?;
                fill(&set, all)?;
                (0..3).try_for_each(|i| set.note_false_positive(url(i)).map(drop))?;
                set.sync()
            }
            Kind::Growing => {
                let set = GrowingFilter::create_in(dir, NAME, 1e-2, 0)?;
                fill(&set, all)?;
                set.sync()
            }
            Kind::Trie => {
                let set = UrlTrie::new();
                fill(&set, all)?;
                set.save_in(&*dir, NAME).map(drop)
            }
            Kind::Disk | Kind::Short => {
                let set = DiskUrlSet::create_in(dir, NAME, self.options())?;
                let mut batch = set.batch();
                (0..400).try_for_each(|i| batch.push(url(i)))?;
                set.check_and_insert_all(&mut batch)?;
                (400..550).try_for_each(|i| batch.push(url(i)))?;
                set.check_and_insert_all(&mut batch)?;
                fill(&set, 550..URLS - 1)?;
                set.forget(url(5))?;
                set.insert(&url(URLS - 1))?;
                set.sync()
            }
        }
    }

    /// Of a set on disk: little memory.
    pub fn options(self) -> DiskOptions {
        let bits = if self == Kind::Short { FingerprintBits::Bits64 } else { FingerprintBits::Bits80 };
        DiskOptions::new().memory_bytes(32 << 10).fingerprint_bits(bits)
    }

    /// Makes the checksums of a file right, and those elsewhere that speak of it.
    pub fn seal(self, image: &mut Image, name: &str) {
        let words = if self == Kind::Bitmap && name == NAME { image.get(NAME).cloned() } else { None };
        let file = match words {
            Some(_) => image.get_mut("s.meta"),
            None => image.get_mut(name),
        };
        let Some(file) = file else { return };
        match self {
            Kind::Bitmap => sidecar(file, words.as_deref()),
            Kind::Bloom | Kind::Blocked if name == NAME => bloom(file),
            Kind::Growing => growing(file),
            Kind::Trie => trie(file),
            Kind::Disk | Kind::Short if name.ends_with(".run") => run(file),
            Kind::Disk | Kind::Short if name.ends_with(".log") => log(file),
            // The manifest, and the list of known false positives.
            _ => tail(file),
        }
    }
}

/// Inserts these URLs.
pub fn fill(set: &dyn SeenSet, urls: std::ops::Range<u64>) -> Result<()> {
    urls.into_iter().try_for_each(|i| set.insert(&url(i)).map(drop))
}

fn hash(parts: &[&[u8]]) -> [u8; 4] {
    let mut hasher = crc32fast::Hasher::new();
    parts.iter().for_each(|part| hasher.update(part));
    hasher.finalize().to_le_bytes()
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_le_bytes)
}

/// A checksum of the bytes before it, at a place.
fn header(bytes: &mut [u8], at: usize) {
    if bytes.len() >= at + 4 {
        let sum = hash(&[&bytes[..at]]);
        bytes[at..at + 4].copy_from_slice(&sum);
    }
}

fn tail(bytes: &mut [u8]) {
    if let Some(at) = bytes.len().checked_sub(4) {
        header(bytes, at);
    }
}

fn sidecar(bytes: &mut [u8], words: Option<&[u8]>) {
    if bytes.len() < 64 {
        return;
    }
    if let Some(words) = words {
        let ones: u64 = words.iter().map(|byte| u64::from(byte.count_ones())).sum();
        bytes[32..40].copy_from_slice(&ones.to_le_bytes());
        for (sum, segment) in bytes[64..].chunks_exact_mut(4).zip(words.chunks(8192)) {
            sum.copy_from_slice(&hash(&[segment]));
        }
    }
    let sum = hash(&[&bytes[..60], &bytes[64..]]);
    bytes[60..64].copy_from_slice(&sum);
}

fn bloom(bytes: &mut [u8]) {
    header(bytes, 508);
    let Some(id) = bytes.get(16..32).map(<[u8]>::to_vec) else { return };
    for (number, sector) in bytes.chunks_exact_mut(512).skip(1).enumerate() {
        let sum = hash(&[&id, &(number as u64).to_le_bytes(), &sector[..508]]);
        sector[508..].copy_from_slice(&sum);
    }
}

fn growing(bytes: &mut [u8]) {
    header(bytes, 40);
    let mut at = 44;
    for number in 0..64u64 {
        let words = u64_at(bytes, at);
        let end = (at + 12).saturating_add((words as usize).saturating_mul(8));
        if end > bytes.len() {
            return;
        }
        let sum = hash(&[&number.to_le_bytes(), &words.to_le_bytes(), &bytes[at + 12..end]]);
        bytes[at + 8..at + 12].copy_from_slice(&sum);
        at = end;
    }
}

fn trie(bytes: &mut [u8]) {
    header(bytes, 12);
    let mut at = 16;
    while at + 16 <= bytes.len() {
        let len = u64_at(bytes, at) as u32;
        let end = (at + 8).saturating_add(if len == 0 { 8 } else { len as usize });
        if end > bytes.len() {
            return;
        }
        let sum = hash(&[&(at as u64).to_le_bytes(), &len.to_le_bytes(), &bytes[at + 8..end]]);
        bytes[at + 4..at + 8].copy_from_slice(&sum);
        at = end;
    }
}

fn run(bytes: &mut [u8]) {
    if bytes.len() < 4096 {
        return;
    }
    let salt = bytes[16..40].to_vec();
    // One group of blocks: a run of these targets has less than 128.
    let filter_bytes = if bytes[8] == 1 { 0 } else { 1024 };
    let most = (bytes.len() - 4096) / (4096 + filter_bytes);
    let blocks = usize::try_from(u64_at(bytes, 40)).unwrap_or(usize::MAX).min(most);
    let (filters, index) = ((1 + blocks) * 4096, (1 + blocks) * 4096 + blocks * filter_bytes);
    let mut seal = |parts: std::ops::Range<usize>, part_bytes: usize| {
        for (number, part) in bytes[parts].chunks_exact_mut(part_bytes).enumerate() {
            let sum = hash(&[&salt, &(number as u64).to_le_bytes(), &part[4..]]);
            part[..4].copy_from_slice(&sum);
        }
    };
    seal(4096..filters, 4096);
    seal(filters..index, filter_bytes.max(1));
    let sum = hash(&[&bytes[index..]]);
    bytes[64..68].copy_from_slice(&sum);
    header(bytes, 4092);
}

fn log(bytes: &mut [u8]) {
    header(bytes, 508);
    let Some(salt) = bytes.get(16..40).map(<[u8]>::to_vec) else { return };
    for (number, sector) in bytes.chunks_exact_mut(512).skip(1).enumerate() {
        let sum = hash(&[&salt, &(number as u64).to_le_bytes(), &sector[4..]]);
        sector[..4].copy_from_slice(&sum);
    }
}
