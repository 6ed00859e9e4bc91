//! `GrowingFilter`: a chosen rate for an unknown number of URLs.
//!
//! A Bloom filter cannot grow, since it does not know its keys; chains of larger ones need ever
//! more bits and probes. So this keeps fingerprints, some bits of each URL's hash, in compressed
//! [`bucket`]s that split as they fill ([`layer`]). Nothing is sized beforehand, and a split
//! delays inserts by microseconds. Fingerprints of F bits err at n / 2^F; when n has used up F,
//! the layer is closed and one with longer fingerprints begins. The first four layers may have
//! nearly a quarter of the errors each, each later one half of what is left, so the rate holds
//! however many layers there are.
//!
//! Layers grow by a factor that depends on the rate: as far as the whole stays within 1.3 times
//! the bits of a Bloom filter made for exactly this many URLs (docs/SEEN.md has the measured
//! curve). At a rate of 1e-2 that ends with the fourth layer, at 10^8 URLs by the model; greater
//! rates have no bits to spare from the start. A filter of unknown size needs bits in the order of
//! log log n a key beyond those of the rate (Pagh, Segev and Wieder 2013).
//!
//! Invariants: a URL's shard, chosen by its hash, is locked while it is tested and inserted; a
//! fingerprint is in one layer at most.

mod bucket;
mod file;
mod layer;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use filemap_io::{Dir, Latch, Lock, StorageError, guard};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::error::{Error, Result};
use crate::files::{self, by_path};
use crate::seen::{SeenSet, SeenStats, Verdict};
use layer::Layer;

/// Number of the hash's lowest bits, which select a shard.
const SHARD_BITS: u32 = 6;
const SHARDS: usize = 1 << SHARD_BITS;
/// About the binary logarithm of the number of URLs that the first layer's fingerprints suffice
/// for. A lower one would make more layers, a higher one fingerprints too long for few URLs.
const FIRST_LOG2: u32 = 17;
/// Layers with equal shares of the rate, 95% of it together: enough for 10^8 URLs and more.
const EQUAL_LAYERS: u32 = 4;
const EQUAL_SHARES: f64 = 0.95;
/// Bits of the hash without those of the shard.
const FINGERPRINT_BITS_MAX: u32 = 64 - SHARD_BITS;

/// A growing filter, in memory or with a file that [`SeenSet::sync`] rewrites.
///
/// ```
/// use urlindex::{GrowingFilter, SeenSet, Verdict};
///
/// let filter = GrowingFilter::in_memory(1e-4, 0).unwrap();
/// assert!(filter.insert(b"http://example.com/").unwrap());
/// assert_eq!(filter.contains(b"http://example.com/").unwrap(), Verdict::ProbablySeen);
/// ```
#[derive(Debug)]
pub struct GrowingFilter {
    design: Design,
    shards: Vec<Mutex<Vec<Layer>>>,
    urls: AtomicU64,
    urls_before: u64,
    poison: Latch,
    store: Option<Store>,
}

#[derive(Debug)]
struct Store {
    dir: Arc<dyn Dir>,
    name: String,
    /// True if anything was inserted since the last sync.
    is_changed: AtomicBool,
    /// Length of the file.
    syncing: Mutex<u64>,
    _lock: Box<dyn Lock>,
}

/// Rate and seed, which determine the fingerprints.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Design {
    rate: f64,
    seed: u64,
}

impl Design {
    fn new(rate: f64, seed: u64) -> Result<Design> {
        if !(1e-9..=0.1).contains(&rate) {
            return Err(Error::option("rate", format!("{rate} is not 1e-9 to 0.1")));
        }
        Ok(Design { rate, seed })
    }

    /// Growth from a layer to the next, as a power of two.
    fn growth_log2(&self) -> u32 {
        // A Bloom filter has 1.44 bits for each bit of the rate; 1.3 times that may be used. A
        // bucket takes 2.2 more than the bits of the rate, and a quarter of the errors costs a
        // layer two more.
        let spare = (1.3 * std::f64::consts::LOG2_E - 1.0) * -self.rate.log2() - 4.3;
        (spare as u32).clamp(3, 8)
    }

    /// A layer's share of the rate. All shares sum to 1.
    fn share(number: u32) -> f64 {
        match number.checked_sub(EQUAL_LAYERS) {
            None => EQUAL_SHARES / f64::from(EQUAL_LAYERS),
            Some(later) => (1.0 - EQUAL_SHARES) * (-f64::from(later) - 1.0).exp2(),
        }
    }

    /// Capacity of a shard's layer, and bits of its fingerprints.
    fn layer(&self, number: u32) -> (u64, u32) {
        let rate = self.rate * Design::share(number);
        let keys_log2 = FIRST_LOG2 - SHARD_BITS + self.growth_log2() * number;
        // Bits are whole, so capacity follows from them. The last layer takes all remaining bits.
        let bits = (f64::from(keys_log2) - rate.log2()).round().min(f64::from(FINGERPRINT_BITS_MAX));
        ((bits.exp2() * rate) as u64, bits as u32)
    }
}

impl GrowingFilter {
    /// An empty filter without a file, with at most this `rate` (1e-9 to 0.1) for any number of
    /// URLs. See [`crate::BloomOptions::seed`] for the seed.
    ///
    /// # Errors
    /// [`StorageError::InvalidOption`].
    pub fn in_memory(rate: f64, seed: u64) -> Result<GrowingFilter> {
        Ok(GrowingFilter::with(Design::new(rate, seed)?, (0..SHARDS).map(|_| Vec::new()).collect(), None))
    }

    by_path! {
        /// Creates an empty filter with a new file.
        ///
        /// # Errors
        /// [`StorageError::InvalidOption`]; [`StorageError::Locked`]; [`StorageError::Io`], with
        /// [`std::io::ErrorKind::AlreadyExists`] if the file exists.
        fn create, create_in(dir, name, rate: f64, seed: u64) -> Result<GrowingFilter> {
            let design = Design::new(rate, seed)?;
            let lock = files::lock(&*dir, name)?;
            files::check_absent(&*dir, name)?;
            let set = GrowingFilter::with(design, (0..SHARDS).map(|_| Vec::new()).collect(), None);
            let bytes = file::write(&*dir, name, &set)?;
            Ok(set.stored(dir, name, lock, bytes))
        }
    }

    by_path! {
        /// Opens a filter: reads and checks all of it.
        ///
        /// # Errors
        /// [`StorageError::Corrupt`] with the offset of the damaged part;
        /// [`StorageError::NewerFormat`]; [`StorageError::Locked`]; [`StorageError::Io`].
        fn open, open_in(dir, name) -> Result<GrowingFilter> {
            let lock = files::lock(&*dir, name)?;
            let file::Stored { design, shards, len } = file::read(&*dir, name)?;
            Ok(GrowingFilter::with(design, shards, None).stored(dir, name, lock, len))
        }
    }

    by_path! {
        /// Loads a filter as its last sync left it into memory, without a lock: another process
        /// may be inserting. Inserts into the copy stay in memory.
        ///
        /// # Errors
        /// As [`GrowingFilter::open`], but never [`StorageError::Locked`].
        fn load, load_in(dir, name) -> Result<GrowingFilter> {
            let file::Stored { design, shards, .. } = file::read(&*dir, name)?;
            Ok(GrowingFilter::with(design, shards, None))
        }
    }

    /// The chosen rate.
    pub fn rate(&self) -> f64 {
        self.design.rate
    }

    /// The hash's seed.
    pub fn seed(&self) -> u64 {
        self.design.seed
    }

    fn with(design: Design, shards: Vec<Vec<Layer>>, store: Option<Store>) -> GrowingFilter {
        let urls = shards.iter().flatten().map(Layer::keys).sum();
        GrowingFilter {
            design,
            shards: shards.into_iter().map(Mutex::new).collect(),
            urls: AtomicU64::new(urls),
            urls_before: urls,
            poison: Latch::default(),
            store,
        }
    }

    fn stored(self, dir: Arc<dyn Dir>, name: &str, lock: Box<dyn Lock>, bytes: u64) -> GrowingFilter {
        let is_changed = AtomicBool::new(false);
        let store = Store { dir, name: name.to_owned(), is_changed, syncing: Mutex::new(bytes), _lock: lock };
        GrowingFilter { store: Some(store), ..self }
    }

    /// Returns whether a sync would write.
    pub(crate) fn is_changed(&self) -> bool {
        self.store.as_ref().is_some_and(|store| store.is_changed.load(Ordering::SeqCst))
    }

    #[inline]
    fn place(&self, url: &[u8]) -> (&Mutex<Vec<Layer>>, u64) {
        let hash = xxh3_64_with_seed(url, self.design.seed);
        (&self.shards[hash as usize % SHARDS], hash)
    }

    /// Sums over all shards: keys of each layer, and bits of its fingerprints, the shard's
    /// included.
    fn layers(&self) -> Vec<(f64, u32)> {
        let mut layers: Vec<(f64, u32)> = Vec::new();
        for shard in &self.shards {
            for (number, layer) in guard(shard).iter().enumerate() {
                if layers.len() == number {
                    layers.push((0.0, layer.bits() + SHARD_BITS));
                }
                layers[number].0 += layer.keys() as f64;
            }
        }
        layers
    }
}

impl SeenSet for GrowingFilter {
    /// [`StorageError::Full`] when fingerprints of 58 bits are used up, far beyond any memory.
    fn check_and_insert(&self, url: &[u8]) -> Result<Verdict> {
        self.poison.check()?;
        let (shard, hash) = self.place(url);
        let mut layers = guard(shard);
        if layers.iter().any(|layer| layer.contains(hash)) {
            return Ok(Verdict::ProbablySeen);
        }
        let is_full = |number: usize, layer: &Layer| layer.keys() >= self.design.layer(number as u32).0;
        if layers.last().is_none_or(|layer| is_full(layers.len() - 1, layer)) {
            let (_, bits) = self.design.layer(layers.len() as u32);
            if layers.last().is_some_and(|last| last.bits() == bits) {
                let what = format!("its rate would need fingerprints of more than {bits} bits");
                return Err(Error::Storage(StorageError::Full { file: "the growing filter".to_owned(), what }));
            }
            layers.push(Layer::new(bits));
        }
        if let Some(layer) = layers.last_mut() {
            layer.insert(hash);
        }
        drop(layers);
        self.urls.fetch_add(1, Ordering::Relaxed);
        if let Some(store) = &self.store
            && !store.is_changed.load(Ordering::SeqCst)
        {
            store.is_changed.store(true, Ordering::SeqCst);
        }
        Ok(Verdict::New)
    }

    fn contains(&self, url: &[u8]) -> Result<Verdict> {
        let (shard, hash) = self.place(url);
        let is_there = guard(shard).iter().any(|layer| layer.contains(hash));
        Ok(if is_there { Verdict::ProbablySeen } else { Verdict::New })
    }

    fn len(&self) -> u64 {
        self.urls.load(Ordering::Relaxed)
    }

    fn memory_bytes(&self) -> u64 {
        let shards = self.shards.iter().map(|shard| guard(shard).iter().map(Layer::memory_bytes).sum::<u64>());
        shards.sum::<u64>() + (SHARDS * size_of::<Mutex<Vec<Layer>>>()) as u64
    }

    fn disk_bytes(&self) -> u64 {
        self.store.as_ref().map_or(0, |store| *guard(&store.syncing))
    }

    /// Exact for a perfect hash: keys over fingerprints of each layer.
    fn false_positive_rate(&self) -> f64 {
        self.layers().iter().map(|(keys, bits)| keys * (-f64::from(*bits)).exp2()).sum()
    }

    fn expected_loss(&self) -> f64 {
        let (mut loss, mut rate_before) = (0.0, 0.0);
        for (keys, bits) in self.layers() {
            let rate = keys * (-f64::from(bits)).exp2();
            loss += keys * (rate_before + rate / 2.0);
            rate_before += rate;
        }
        loss
    }

    /// Rewrites the whole file if anything was inserted; for a large filter, do not call it every
    /// second.
    fn sync(&self) -> Result<()> {
        let Some(store) = &self.store else { return Ok(()) };
        let mut bytes = guard(&store.syncing);
        self.poison.guard(|| {
            if store.is_changed.swap(false, Ordering::SeqCst) {
                *bytes = file::write(&*store.dir, &store.name, self)?;
            }
            Ok(())
        })
    }

    fn stats(&self) -> SeenStats {
        SeenStats::of(self, self.len() - self.urls_before)
    }
}

#[cfg(test)]
mod tests;
